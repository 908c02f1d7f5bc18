/** The stack of `npm start`: a delivery that the sandbox gave up is fetched from its hook's list, and handled. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { post } from '../../dev/traffic.ts'
import type { OwnStack } from './own-stack.ts'
import { startOwnStack, until } from './own-stack.ts'

let stack: OwnStack

beforeAll(async () => {
  stack = await startOwnStack({ sandboxEntries: 1, env: { INTEGRATIONS__SCHEDULES__ENABLED: 'false' } })
})
afterAll(() => stack?.stop())

it('reconciliation finds a delivery that never arrived, and the worker handles it', async () => {
  const { integrationId, integrations, sandboxUrl, sql } = stack
  // Younger ones may still arrive by themselves.
  const lost = (await post(`${sandboxUrl}/_sandbox/deliveries`, { count: 1, secondsAgo: 600 })) as {
    deliveries: { guid: string }[]
  }
  expect(await integrations.webhooks.reconcile({ integrationId })).toEqual({
    ...{ integrations: 1, seen: 1, known: 0, inserted: 1, tooLarge: 0, capped: 0, failed: 0, skipped: 0 },
    reasons: [],
  })
  await until('the delivery is processed', async () => {
    const rows = await sql`select delivery_id from integration_webhooks where status = 'processed'`
    return rows.length === 1 && rows[0]?.delivery_id === lost.deliveries[0]?.guid
  })
})
