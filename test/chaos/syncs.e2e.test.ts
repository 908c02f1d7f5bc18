/** The short form of syncs.long.test.ts: each part is killed once, in the middle of the items. */
import { afterAll, beforeAll, it } from 'vitest'
import type { ChaosStack } from './chaos-stack.ts'
import { seedOfRun } from './seeded-kills.ts'
import type { Plan } from './sync-plan.ts'
import { killUnderSync, resolvePoison, startSyncStack } from './sync-scenarios.ts'

const PLAN: Plan = {
  items: 500,
  poison: [7, 250, 499],
  max_work_ms: 600,
  work_step_ms: 37,
  page: 100,
  page_ms: 0,
}

let stack: ChaosStack

beforeAll(async () => {
  stack = await startSyncStack(PLAN)
})

afterAll(() => stack?.stop())

it('kill -9 of worker, Temporal and Postgres: each item ends as it should, and the cursor waits for the poison', async () => {
  await killUnderSync(stack, {
    seed: seedOfRun(),
    plan: PLAN,
    killsEach: 1,
    meanGapMs: 500,
    isWorkerLast: true,
    endedWithinSeconds: 90,
  })
})

it('the cursor moves once the poison is retried or skipped', async () => {
  await resolvePoison(stack, PLAN)
})
