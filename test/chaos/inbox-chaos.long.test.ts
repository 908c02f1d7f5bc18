/**
 * Two workers and one inbox under all that may happen to them: deaths, standstills, links that are cut or that hold everything up.
 *
 * `CHAOS_MINUTES` (20) says for how long; `CHAOS_SEED` of a run that failed draws the same faults again.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { carryOutFaults, drawFaults } from './inbox-faults.ts'
import { doctorSays, expectPromisesKept, workMs } from './inbox-scenario.ts'
import type { InboxStack } from './inbox-stack.ts'
import { startInboxStack } from './inbox-stack.ts'
import { seeded, seedOfRun } from './seeded-kills.ts'
import { sendSigned } from './signed-sender.ts'

const MINUTES = Number(process.env.CHAOS_MINUTES ?? 20)
const FAULTS_PER_MINUTE = 7.5
const PER_SECOND = 20
const MINUTE_MS = 60_000

let stack: InboxStack

beforeAll(async () => {
  stack = await startInboxStack({ integrations: 30, workers: 2 })
})

afterAll(() => stack?.stop())

it(
  `${Math.round(MINUTES * FAULTS_PER_MINUTE)} faults in ${MINUTES} minutes: what was answered 2xx is settled once within 60 s of quiet, and no handler runs again, or beside itself, without a death or a silence of its worker`,
  async () => {
    const seed = seedOfRun()
    console.log(`CHAOS_SEED=${seed} CHAOS_MINUTES=${MINUTES}`)
    const doctorBefore = await doctorSays(stack)
    const plan = drawFaults(seeded(seed), {
      count: Math.round(MINUTES * FAULTS_PER_MINUTE),
      seconds: MINUTES * 60,
      workers: [...stack.workers.keys()],
    })
    const random = seeded(seed + 1)
    let isOver = false
    const [story, sent] = await Promise.all([
      carryOutFaults(stack, plan).finally(() => {
        isOver = true
      }),
      sendSigned({
        urls: stack.webhookUrls,
        answered: stack.answered,
        ratePerSecond: PER_SECOND,
        isEnough: () => isOver,
        workMs: () => workMs(random),
      }),
    ])
    console.log(`${sent.deliveries} deliveries: ${JSON.stringify(sent.answers)}`)
    expect(sent.refusals).toEqual([])
    const { afterDeath } = await expectPromisesKept(stack, story, doctorBefore)
    // Else the faults have met nobody at work, and the rest says nothing.
    expect(afterDeath).toBeGreaterThan(0)
  },
  (MINUTES + 10) * MINUTE_MS,
)
