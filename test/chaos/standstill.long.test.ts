/** A worker that stands still and then goes on, Temporal away while retries are due, Postgres killed in a finalisation. */
import { afterAll, beforeAll, it } from 'vitest'
import type { ChaosStack } from './chaos-stack.ts'
import type { Plan } from './sync-plan.ts'
import { resolvePoison, standStill, startSyncStack } from './sync-scenarios.ts'

const MINUTE_MS = 60_000
const PLAN: Plan = {
  items: 2_000,
  poison: [7, 1_001, 1_999],
  max_work_ms: 600,
  work_step_ms: 37,
  page: 500,
  page_ms: 500,
}

let stack: ChaosStack

beforeAll(async () => {
  stack = await startSyncStack(PLAN)
})

afterAll(() => stack?.stop())

it(
  'what is no longer its work changes nothing: each item ends as it should, and the run once',
  async () => {
    await standStill(stack, { plan: PLAN, seconds: 25, endedWithinSeconds: 120 })
    await resolvePoison(stack, PLAN)
  },
  6 * MINUTE_MS,
)
