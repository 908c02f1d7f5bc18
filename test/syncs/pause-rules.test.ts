/** Which act on a sync holds it now. */
import { describe, expect, it } from 'vitest'
import type { PauseAct } from '../../src/syncs/pause-rules.ts'
import { pauseOf, pauseText, schedulePauseText } from '../../src/syncs/pause-rules.ts'

const act = (action: string, hasRunSince = false, streamsRunSince: readonly string[] = []): PauseAct => {
  const [verb = '', stream = null] = action.split(' ')
  return { verb, stream, by: 'mara', at: new Date('2026-11-26T10:00:00Z'), hasRunSince, streamsRunSince }
}

describe('a sync', () => {
  it.each([
    ['nothing', [], null, false],
    ['a pause', [act('pause')], null, true],
    ['a pause that a run came after', [act('pause', true)], null, false],
    ['a pause, then its end', [act('resume'), act('pause')], null, false],
    ['a pause, then a cancelled run', [act('cancel'), act('pause')], null, false],
    ['a pause, then a cursor set by force', [act('cursor'), act('pause')], null, false],
    ['a pause, then an erasure by force', [act('erase'), act('pause')], 'deals', false],
    ['a pause of all', [act('pause')], 'deals', true],
    ['a pause of all, and a run of the stream', [act('pause', true, ['deals'])], 'deals', false],
    ['a pause of all, and a run of another stream', [act('pause', true, ['people'])], 'deals', true],
    ['a pause of all, and a run of a stream, asked of all', [act('pause', true, ['people'])], null, false],
    ['a pause of one', [act('pause deals')], 'deals', true],
    ['a pause of one that a run came after', [act('pause deals', true)], 'deals', false],
    ['a pause of one, asked of another', [act('pause deals')], 'people', false],
    ['a pause of one, asked of all', [act('pause deals')], null, false],
    ['a pause of all, then the end of one', [act('resume deals'), act('pause')], 'deals', false],
    ['a pause of all, then the end of one, asked of another', [act('resume deals'), act('pause')], 'people', true],
  ] as const)('after %s: %#', (_, acts, stream, isPaused) => {
    expect(pauseOf(acts, stream)).toEqual(isPaused ? { by: 'mara', since: act('pause').at } : null)
  })
})

it('is said with who made it and since when', () => {
  expect(pauseText({ by: 'cli:ada', since: new Date('2026-11-26T10:00:00Z') })).toBe(
    'by cli:ada since 2026-11-26T10:00:00.000Z',
  )
  expect(pauseText(null)).toBeNull()
})

it('of the Schedule is said with the note that Temporal has', () => {
  expect(schedulePauseText({ id: 'dispatch-syncs', note: null })).toBe(
    'the Schedule dispatch-syncs is paused in Temporal',
  )
  expect(schedulePauseText({ id: 'dispatch-syncs', note: 'Paused via CLI' })).toBe(
    'the Schedule dispatch-syncs is paused in Temporal ("Paused via CLI")',
  )
})
