/** Deliveries that wait for a lock are answered before their sender hangs up, and leave nothing behind in Postgres. */
import { randomUUID } from 'node:crypto'
import type { Hono } from 'hono'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, sign, webhookProvider } from '../support/providers.ts'
import { waitingForLocks } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

/** GitHub hangs up then. */
const HANGS_UP_MS = 10_000
const BODY = '{"n":1}'

/** Beside each other, in a database each: both wait for their limits. */
describe.concurrent.each([
  {
    connection: 'that leads to the server itself',
    query: '',
    error: 'canceling statement due to lock timeout',
    message: 'a delivery could not be stored: another session of Postgres holds a lock that it needs',
  },
  {
    connection: 'that may lead to a pooler',
    query: '?prepare=false',
    error: 'Postgres: no answer within 4 s',
    message: 'a delivery could not be stored',
  },
])('a locked table of webhooks, over a connection $connection', ({ query, error, message }) => {
  let database: TestDatabase
  let test: TestIntegrations
  let api: Hono
  let integration: Integration

  beforeAll(async () => {
    database = await createTestDatabase()
    test = testIntegrations(`${database.url}${query}`, { providers: { acme: webhookProvider() } })
    api = createApi(test.integrations)
    integration = await test.integrations.create({ provider: 'acme', name: 'Ours', credentials: CREDENTIALS })
  })
  afterAll(async () => {
    await test?.close()
    await database?.drop()
  })

  async function deliver(id: string): Promise<Response> {
    const headers = { 'x-signature': sign(BODY), 'x-delivery': id, 'x-event': 'thing.made' }
    return api.request(`/integrations/acme/${integration.id}/webhook`, { method: 'POST', headers, body: BODY })
  }
  const stored = (ids: readonly string[]): Promise<{ delivery_id: string }[]> =>
    test.sql<{ delivery_id: string }[]>`
      select delivery_id from integration_webhooks where delivery_id in ${test.sql(ids)}`

  it('is answered 503 in time, also to those that wait behind others; nothing is stored, and a repeat is stored once', async ({
    expect,
    onTestFinished,
  }) => {
    const lock = await locked(database)
    onTestFinished(() => lock.end())
    const ids = Array.from({ length: 8 }, () => randomUUID())
    const linesBefore = test.lines.length
    const begunAt = performance.now()
    const answers = await Promise.all(ids.map(deliver))
    expect(performance.now() - begunAt).toBeLessThan(HANGS_UP_MS)
    expect(answers.map(({ status }) => status)).toEqual(ids.map(() => 503))
    expect(answers.map(({ headers }) => headers.get('retry-after'))).toEqual(ids.map(() => '30'))
    const told = test.lines.slice(linesBefore).filter(({ fields }) => fields.event === 'webhook.not_stored')
    expect(told.map(({ fields }) => fields.delivery).sort()).toEqual(ids.toSorted())
    for (const line of told) {
      const of = { provider: 'acme', integration: integration.id, type: 'thing.made' }
      expect(line).toMatchObject({ level: 'error', message, fields: { ...of, error: expect.stringContaining(error) } })
    }

    await expect.poll(() => waitingForLocks(test), SOON).toBe(0)
    await lock.release()
    expect(await stored(ids)).toEqual([])
    expect((await deliver(ids[0] as string)).status).toBe(200)
    expect((await deliver(ids[0] as string)).status).toBe(200)
    expect(await stored(ids)).toEqual([{ delivery_id: ids[0] }])
  })
})

/** As a forgotten session of psql holds it. */
async function locked({ url }: TestDatabase): Promise<{ release(): Promise<void>; end(): Promise<void> }> {
  const holder: Sql = postgres(url, { max: 1, onnotice: () => {} })
  const [held, over] = [occasion(), occasion()]
  const session = holder.begin(async (tx) => {
    await tx`lock table integration_webhooks in exclusive mode`
    held.happen()
    await over.happened
  })
  const release = async (): Promise<void> => {
    over.happen()
    await session
  }
  const end = async (): Promise<void> => {
    await release()
    await holder.end()
  }
  await held.happened
  return { release, end }
}
