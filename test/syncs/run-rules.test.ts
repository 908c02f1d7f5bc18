import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  backfillRuns,
  backfillWindow,
  intervalMultiplier,
  runKind,
  runStatus,
  runUnderWay,
} from '../../src/syncs/run-rules.ts'

describe('the status of a run', () => {
  it.each([
    { succeeded: 0, failed: 0, skipped: 0, status: 'success' },
    { succeeded: 5, failed: 0, skipped: 0, status: 'success' },
    { succeeded: 0, failed: 0, skipped: 2, status: 'success' },
    { succeeded: 5, failed: 1, skipped: 0, status: 'partial' },
    { succeeded: 0, failed: 1, skipped: 1, status: 'partial' },
    { succeeded: 2, failed: 1, skipped: 2, status: 'partial' },
    { succeeded: 0, failed: 1, skipped: 0, status: 'failed' },
  ])('$succeeded succeeded, $failed failed, $skipped skipped: $status', ({ status, ...counts }) => {
    expect(runStatus(counts)).toBe(status)
  })
})

describe('the interval after runs with failures', () => {
  const CAP = 16

  it.each([
    [0, 1],
    [1, 1],
    [2, 2],
    [3, 4],
    [4, 8],
    [5, 16],
    [6, 16],
    [1_000_000, 16],
  ])('after %i in a row is multiplied by %i', (failures, multiplier) => {
    expect(intervalMultiplier(failures, CAP)).toBe(multiplier)
  })

  it('is never multiplied by more than the cap, nor shrinks while failures go on', () => {
    fc.assert(
      fc.property(fc.nat(2_000), fc.integer({ min: 1, max: 2 ** 31 - 1 }), (failures, cap) => {
        const multiplier = intervalMultiplier(failures, cap)
        expect(multiplier).toBeGreaterThanOrEqual(1)
        expect(multiplier).toBeLessThanOrEqual(cap)
        expect(intervalMultiplier(failures + 1, cap)).toBeGreaterThanOrEqual(multiplier)
      }),
    )
  })
})

describe('a run that is under way', () => {
  const since = new Date('2031-01-01T12:00:00Z')
  const after = (seconds: number) => new Date(since.getTime() + seconds * 1_000)

  it.each([
    [null, 0, 59, 'run 31 under way for less than a minute'],
    [null, 0, 60, 'run 31 under way for 1 min'],
    [null, 10, 299, 'run 31 under way for 4 min; 10 wait'],
    ['deals', 1, 7_140, 'run 31 of deals under way for 119 min; 1 wait'],
    [null, 0, 7_200, 'run 31 under way for 2 h'],
    // The two clocks differ.
    [null, 0, -5, 'run 31 under way for less than a minute'],
  ])('of stream %s with %i items that wait, %i s later', (stream, waiting, seconds, words) => {
    expect(runUnderWay({ id: 31, stream, since }, waiting, after(seconds))).toBe(words)
  })
})

describe('a backfill', () => {
  it.each([
    ['2031-06-01T12:00:00.001Z', 1],
    ['2031-06-02T12:00:00.000Z', 1],
    ['2031-06-02T12:00:00.001Z', 2],
    ['2031-07-02T12:00:00.000Z', 31],
  ])('up to %s makes %i runs, one for each day', (to, runs) => {
    expect(backfillRuns(new Date('2031-06-01T12:00:00Z'), new Date(to))).toBe(runs)
  })

  const window = { from: '2031-06-01T12:00:00.000Z', to: '2031-06-02T12:00:00.000Z' }

  it.each([
    ['of a backfill', { window: { ...window, until: '2031-07-01T12:00:00.000Z' }, run_id: 'x' }, window],
    ['of an ordinary run', { run_id: 'x' }, null],
    ['that was erased', null, null],
    ['without an end', { window: { from: window.from } }, null],
    ['without a beginning', { window: { to: window.to } }, null],
  ])('has a window: metadata %s', (_, metadata, expected) => {
    expect(backfillWindow(metadata)).toEqual(expected)
  })

  it.each([
    [{ operation: 'backfill', metadata: { window } }, 'backfill of 2031-06-01T12:00Z'],
    [{ operation: 'backfill', metadata: null }, 'backfill'],
    [{ operation: 'sync', metadata: { run_id: 'x' } }, 'sync'],
  ])('has runs that lists name by their day: %j', (run, name) => {
    expect(runKind(run)).toBe(name)
  })
})
