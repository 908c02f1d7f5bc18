import { expect, it } from 'vitest'
import type { Happened } from './inbox-faults.ts'
import type { Run } from './inbox-runs.ts'
import { judgedRuns } from './inbox-runs.ts'

const SECOND_MS = 1_000

const run = (values: Partial<Run>): Run => ({
  delivery_id: 'd',
  webhook: '7',
  attempt: 1,
  member: 'worker',
  begunMs: 0,
  endedMs: SECOND_MS,
  was_aborted: false,
  ...values,
})

/** The worker stands still from 1 s to 26 s; another one has its row from 22 s on. */
const freeze: Happened = {
  fault: { kind: 'freeze', target: 'worker', seconds: 25 },
  fromMs: SECOND_MS,
  untilMs: 26 * SECOND_MS,
}
const elsewhere = run({ attempt: 2, member: 'worker-2', begunMs: 22 * SECOND_MS, endedMs: 23 * SECOND_MS })
const refusal = 'worker {"event":"webhook.superseded","webhook":7,"attempt":1}'

it('finds a second run without a reason, beside the first one or after it', () => {
  const first = run({ endedMs: 27 * SECOND_MS })
  expect(judgedRuns([first, elsewhere], [refusal], []).faults).toEqual([
    expect.stringContaining('beside itself without a reason'),
  ])
  expect(judgedRuns([run({}), elsewhere], [refusal], []).faults).toEqual([
    expect.stringContaining('again without a reason'),
  ])
})

it.each([
  ['before its worker stood still', 0],
  ['only after that, with its row already gone', 26.1 * SECOND_MS],
])('takes a silence for the reason where the first run is noted %s', (_, begunMs) => {
  const first = run({ begunMs, endedMs: 30 * SECOND_MS })
  expect(judgedRuns([elsewhere, first], [refusal], [freeze])).toEqual({
    afterDeath: 0,
    afterSilence: 1,
    beside: 1,
    aborted: 0,
    refused: 1,
    faults: [],
  })
  expect(judgedRuns([elsewhere, first], [], [freeze]).faults).toEqual([expect.stringContaining('it lost its row')])
})
