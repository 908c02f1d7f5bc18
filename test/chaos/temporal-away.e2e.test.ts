/** The short form of webhooks.long.test.ts: Temporal is away for six seconds. It promises a rate, and has the machine for itself. */
import { afterAll, beforeAll, it } from 'vitest'
import { takeTemporalAway } from './scenarios.ts'
import type { WebhookStack } from './webhook-stack.ts'
import { startWebhookStack } from './webhook-stack.ts'

let stack: WebhookStack

beforeAll(async () => {
  stack = await startWebhookStack()
})

afterAll(() => stack?.stop())

it('Temporal away under 100 webhooks a second: all are answered 2xx, and processed within 30 s of its return', async () => {
  await takeTemporalAway(stack, { ratePerSecond: 100, awaySeconds: 6, processedWithinSeconds: 30 })
})
