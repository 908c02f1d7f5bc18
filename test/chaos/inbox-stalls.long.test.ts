/** The only worker stands still again and again, each time for less than it may be silent. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Happened } from './inbox-faults.ts'
import { happen } from './inbox-faults.ts'
import { doctorSays, expectPromisesKept, sendDuring } from './inbox-scenario.ts'
import type { InboxStack } from './inbox-stack.ts'
import { startInboxStack } from './inbox-stack.ts'
import { seeded, seedOfRun } from './seeded-kills.ts'

const STALLS = 8
/** A worker that has said that it lives up to 5 s before is taken for dead after 15 s at the soonest. */
const STALL_SECONDS = 12
const BETWEEN_SECONDS = 12
const MINUTE_MS = 60_000

let stack: InboxStack

beforeAll(async () => {
  stack = await startInboxStack({ integrations: 30, workers: 1 })
})

afterAll(() => stack?.stop())

it(
  `${STALLS} standstills of ${STALL_SECONDS} s under load, with slow handlers in hand: no handler runs a second time`,
  async () => {
    const seed = seedOfRun()
    console.log(`CHAOS_SEED=${seed}`)
    const doctorBefore = await doctorSays(stack)
    const story: Happened[] = []
    const stalling = (async () => {
      for (let n = 0; n < STALLS; n += 1) {
        await sleep(BETWEEN_SECONDS * 1_000)
        story.push(await happen(stack, { kind: 'freeze', target: 'worker', seconds: STALL_SECONDS }))
      }
    })()
    const [, sent] = await sendDuring(stack, seeded(seed), stalling)
    expect(sent.answers).toEqual({ 200: sent.deliveries })
    const { runs } = await expectPromisesKept(stack, story, doctorBefore)
    expect(runs).toBe(sent.deliveries)
  },
  10 * MINUTE_MS,
)
