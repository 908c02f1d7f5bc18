import { describe, expect, it } from 'vitest'
import type { SyncProgress } from '../../../src/commands/cli/progress-line.ts'
import { progressLine, progressText } from '../../../src/commands/cli/progress-line.ts'

const at = (values: Partial<SyncProgress> = {}): SyncProgress => ({
  phase: 'processing',
  isPaused: false,
  syncLogId: 1,
  listed: 10_000,
  unchanged: 0,
  succeeded: 6_200,
  failed: 0,
  waiting: 0,
  nextAttemptAt: null,
  lastFailure: null,
  listingFailure: null,
  perSecond: null,
  secondsLeft: null,
  intakeFrom: null,
  startedAt: '2031-06-01T12:00:00Z',
  ...values,
})

describe('the text', () => {
  it.each<[string, Partial<SyncProgress>, string]>([
    ['how much is done', {}, '62 %  6200 of 10000'],
    [
      'what failed and what waits',
      { succeeded: 6_100, failed: 100, waiting: 3 },
      '62 %  6200 of 10000  100 failed  3 waiting',
    ],
    ['rate and time', { perSecond: 410.4, secondsLeft: 9.2 }, '62 %  6200 of 10000  410/s  10 s left'],
    ['a slow rate', { perSecond: 0.25, secondsLeft: 15_200 }, '62 %  6200 of 10000  0.3/s  4 h 14 min left'],
    ['minutes', { secondsLeft: 120 }, '62 %  6200 of 10000  2 min left'],
    ['a pause, without rate and time', { isPaused: true, perSecond: 5, secondsLeft: 9 }, 'paused  62 %  6200 of 10000'],
    [
      'a rate limit',
      { intakeFrom: '2031-06-01T12:01:00Z' },
      '62 %  6200 of 10000  waits for the rate limit until 2031-06-01T12:01:00Z',
    ],
    [
      'why the listing fails',
      {
        ...{ phase: 'listing', listed: null },
        listingFailure: {
          ...{ type: 'HttpError', error: 'HttpError: 502', attempt: 2 },
          ...{ failedAt: '2031-06-01T12:00:00Z', nextAttemptAt: '2031-06-01T12:00:30Z' },
        },
      },
      'listing  listing failed in call 2: HttpError: 502; tried again at 12:00:30Z',
    ],
    ['no more than all', { succeeded: 9_999 }, '99 %  9999 of 10000'],
    ['all, without rate and time', { succeeded: 10_000, perSecond: 5, secondsLeft: 0 }, '100 %  10000 of 10000'],
    [
      'what is left to do beside unchanged records',
      { listed: 100_000, unchanged: 99_800, succeeded: 50, perSecond: 50, secondsLeft: 3 },
      '25 %  50 of 200  99800 unchanged  50/s  3 s left',
    ],
    [
      'a listing of unchanged records',
      { listed: 10, unchanged: 10, succeeded: 0, phase: 'finalising' },
      '100 %  0 of 0  10 unchanged  finalising',
    ],
    ['an empty listing', { listed: 0, succeeded: 0 }, '100 %  0 of 0'],
    ['the end', { phase: 'finalising', succeeded: 10_000 }, '100 %  10000 of 10000  finalising'],
    ['the listing', { phase: 'listing', listed: null, succeeded: 0 }, 'listing'],
    ['a paused listing', { phase: 'listing', listed: null, succeeded: 0, isPaused: true }, 'paused  listing'],
    ['the opening', { phase: 'opening', listed: null, succeeded: 0 }, 'opening'],
    [
      'a pause without a run',
      { phase: 'held', listed: null, succeeded: 0, isPaused: true },
      'held: none starts until it is resumed',
    ],
  ])('tells %s', (_, values, text) => {
    expect(progressText(at(values), { bar: false })).toBe(text)
  })

  it.each([
    [0, '[--------------------] 0 %'],
    [499, '[--------------------] 4 %'],
    [500, '[#-------------------] 5 %'],
    [9_999, '[###################-] 99 %'],
    [10_000, '[####################] 100 %'],
  ])('draws %i of 10000', (succeeded, bar) => {
    expect(progressText(at({ succeeded }), { bar: true })).toBe(`${bar}  ${succeeded} of 10000`)
  })
})

describe('the line', () => {
  function draw(isInteractive: boolean, shown: readonly Partial<SyncProgress>[], columns = 80): string {
    let err = ''
    const line = progressLine({
      out: () => expect.unreachable('stdout is the result’s'),
      err: (text) => {
        err += text
      },
      isInteractive,
      columns: () => columns,
      prompts: {} as never,
      sources: { environment: {}, file: () => '', stdin: async () => '' },
    })
    for (const values of shown) line.show(at(values))
    line.clear()
    return err
  }

  it('is drawn again and again on a terminal, and erased', () => {
    expect(draw(true, [{}, {}])).toBe(`${'\r\u001b[K[############--------] 62 %  6200 of 10000'.repeat(2)}\r\u001b[K`)
  })

  it('is cut where the terminal ends, so that it never becomes two', () => {
    expect(draw(true, [{}], 10)).toBe('\r\u001b[K[########\r\u001b[K')
  })

  it('is a new one for each change of the figures elsewhere, without escape codes', () => {
    const shown = [{ perSecond: 1 }, { perSecond: 2 }, { failed: 1 }, { failed: 1, isPaused: true }, { failed: 1 }]
    expect(draw(false, shown)).toBe(
      [
        '62 %  6200 of 10000  1.0/s',
        '62 %  6201 of 10000  1 failed',
        'paused  62 %  6201 of 10000  1 failed',
        '62 %  6201 of 10000  1 failed',
        '',
      ].join('\n'),
    )
  })
})
