/** The promises about webhooks at full length. `CHAOS_SEED` of a run that failed makes the same kills again. */
import { afterAll, beforeAll, it } from 'vitest'
import { killThemAll, takeTemporalAway } from './scenarios.ts'
import { seedOfRun } from './seeded-kills.ts'
import type { WebhookStack } from './webhook-stack.ts'
import { startWebhookStack } from './webhook-stack.ts'

const MINUTE_MS = 60_000

let stack: WebhookStack

beforeAll(async () => {
  stack = await startWebhookStack()
})

afterAll(() => stack?.stop())

it(
  '24 times kill -9 under 5,000 webhooks: each one answered 2xx is settled once',
  async () => {
    await killThemAll(stack, {
      seed: seedOfRun(),
      deliveries: 5_000,
      killsEach: 6,
      meanGapMs: 8_000,
      settledWithinSeconds: 90,
    })
  },
  5 * MINUTE_MS,
)

it('Temporal away for a minute under 100 webhooks a second: all are answered 2xx, and processed within 30 s of its return', async () => {
  await takeTemporalAway(stack, { ratePerSecond: 100, awaySeconds: 60, processedWithinSeconds: 30 })
})
