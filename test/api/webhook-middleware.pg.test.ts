/** `webhook.middleware` comes first. Rule: docs/behaviour/access.md, "Middleware by name". */
import type { MiddlewareHandler } from 'hono'
import { Hono } from 'hono'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { readBody } from '../../src/api/request-body.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { testIntegrations } from '../support/integrations.ts'
import { OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { sign, webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})

afterAll(() => database.drop())

async function apiWith(names: readonly string[], middleware: Record<string, MiddlewareHandler> = {}) {
  const config = { webhook: { middleware: names }, operator: { tokens: TOKENS } }
  const test = testIntegrations(database.url, { providers: { acme: webhookProvider() }, config, middleware })
  onTestFinished(() => test.close())
  const { id } = await makeIntegration(test, 'acme')
  const deliver = (path: string, headers: Record<string, string> = {}, method = 'POST', body = '{}') =>
    createApi(test.integrations).request(path, {
      method,
      headers: { 'x-signature': sign(body), ...headers },
      ...(method === 'POST' ? { body } : {}),
    })
  return { test, id, deliver }
}

it.each([
  ['an unknown provider', 'POST', () => '/integrations/nobody/1/webhook'],
  ['a method that is not allowed', 'DELETE', (id: number) => `/integrations/acme/${id}/webhook`],
  ['a good delivery', 'POST', (id: number) => `/integrations/acme/${id}/webhook`],
  ['a good delivery on the generic route', 'POST', () => '/integrations/acme/webhook'],
])('refuses before it looks at %s', async (_, method, path) => {
  const { test, id, deliver } = await apiWith(['operator'])
  expect((await deliver(path(id), {}, method)).status).toBe(401)
  expect(await test.sql`select from integration_webhooks where integration_id = ${id}`).toHaveLength(0)
})

it('lets the body through untouched', async () => {
  const { id, deliver } = await apiWith(['operator', 'same-origin'])
  const answer = await deliver(`/integrations/acme/${id}/webhook`, { authorization: `Bearer ${OPERATE_TOKEN}` })
  expect(await answer.json()).toEqual({ status: 'queued' })
})

it.each(['text', 'json', 'arrayBuffer'] as const)('may read the body by %s(), however large', async (how) => {
  const reading: MiddlewareHandler = async ({ req }, next) => {
    await req[how]()
    await next()
  }
  const { id, deliver } = await apiWith(['reading'], { reading })
  for (const length of [2, 100_000]) {
    const body = JSON.stringify({ text: 'x'.repeat(length) })
    const headers = { 'x-delivery': `${how} ${length}`, 'content-length': String(body.length) }
    const answer = await deliver(`/integrations/acme/${id}/webhook`, headers, 'POST', body)
    expect([answer.status, await answer.json()]).toEqual([200, { status: 'queued' }])
  }
})

it('takes room for what it has read, also of a body whose length was not said', async () => {
  const taken: number[] = []
  const app = new Hono()
  app.use(async ({ req }, next) => {
    await req.text()
    await next()
  })
  const room = { take: (bytes: number) => taken.push(bytes) > 1 }
  app.post('/', async (context) => context.text((await readBody(context, 1_000_000, room)).kind))
  const send = async () => (await app.request('/', { method: 'POST', body: 'x'.repeat(100_000) })).text()
  expect([await send(), await send()]).toEqual(['no room', 'read'])
  expect(taken).toEqual([100_000, 100_000])
})

it('runs in the order of the list, each once', async () => {
  const seen: string[] = []
  const noting =
    (name: string): MiddlewareHandler =>
    async (_, next) => {
      seen.push(name)
      await next()
    }
  const { id, deliver } = await apiWith(['second', 'first'], { first: noting('first'), second: noting('second') })
  expect((await deliver(`/integrations/acme/${id}/webhook`)).status).toBe(200)
  expect((await deliver('/integrations/acme/webhook')).status).toBe(200)
  expect(seen).toEqual(['second', 'first', 'second', 'first'])
})

it('is the host’s where the host has one of the same name', async () => {
  const teapot: MiddlewareHandler = async (context) => context.text('short and stout', 418)
  const { id, deliver } = await apiWith(['operator'], { operator: teapot })
  expect((await deliver(`/integrations/acme/${id}/webhook`)).status).toBe(418)
})

it('touches no other route', async () => {
  const { deliver } = await apiWith(['operator'])
  expect((await deliver('/operator/api/v1/healthz', {}, 'GET')).status).toBe(200)
})

it('an empty list asks nothing', async () => {
  const { id, deliver } = await apiWith([])
  expect((await deliver(`/integrations/acme/${id}/webhook`)).status).toBe(200)
})
