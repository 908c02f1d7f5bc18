/** The short form of webhooks.long.test.ts: each part is killed once. */
import { afterAll, beforeAll, it } from 'vitest'
import { killThemAll } from './scenarios.ts'
import { seedOfRun } from './seeded-kills.ts'
import type { WebhookStack } from './webhook-stack.ts'
import { startWebhookStack } from './webhook-stack.ts'

let stack: WebhookStack

beforeAll(async () => {
  stack = await startWebhookStack()
})

afterAll(() => stack?.stop())

it('kill -9 of API, worker, Temporal and Postgres: each webhook answered 2xx is settled once', async () => {
  await killThemAll(stack, {
    seed: seedOfRun(),
    deliveries: 300,
    killsEach: 1,
    meanGapMs: 1_500,
    areApart: true,
    settledWithinSeconds: 90,
  })
})
