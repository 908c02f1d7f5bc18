/** The promises about syncs at full length. `CHAOS_SEED` of a run that failed makes the same kills again. */
import { afterAll, beforeAll, it } from 'vitest'
import type { ChaosStack } from './chaos-stack.ts'
import { seedOfRun } from './seeded-kills.ts'
import type { Plan } from './sync-plan.ts'
import { killUnderSync, resolvePoison, startSyncStack } from './sync-scenarios.ts'

const MINUTE_MS = 60_000
const PLAN: Plan = {
  items: 5_000,
  poison: [7, 2_501, 4_999],
  max_work_ms: 1_000,
  work_step_ms: 37,
  page: 500,
  page_ms: 300,
}

let stack: ChaosStack

beforeAll(async () => {
  stack = await startSyncStack(PLAN)
})

afterAll(() => stack?.stop())

it(
  '13 times kill -9 under a sync of 5,000 items: each ends as it should, and the cursor waits for the poison',
  async () => {
    await killUnderSync(stack, {
      seed: seedOfRun(),
      plan: PLAN,
      killsEach: 4,
      meanGapMs: 2_000,
      killsListing: true,
      endedWithinSeconds: 240,
    })
  },
  10 * MINUTE_MS,
)

it('the cursor moves once the poison is retried or skipped', async () => {
  await resolvePoison(stack, PLAN)
})
