/** A webhook endpoint of Stripe's, registered over HTTP at a server that answers as https://docs.stripe.com/api/webhook_endpoints has it. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { HttpServer } from '../../support/http-server.ts'
import { startHttpServer } from '../../support/http-server.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { makeIntegration } from '../../support/rows.ts'

interface Endpoint {
  readonly id: string
  readonly object: 'webhook_endpoint'
  url: string
  status: string
  enabled_events: string[]
}

let database: TestDatabase
let test: TestIntegrations
let server: HttpServer
let endpoints: Endpoint[]
let secrets: string[]

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { baseUrl: 'https://hooks.example.com', egress: { allow: ['127.0.0.1'] } })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  server = await startHttpServer()
  endpoints = []
  secrets = []
  server.answer = (request, response) => {
    const { method = '', url = '' } = request
    const form = new URLSearchParams(server.received.at(-1)?.body)
    const found = endpoints.find(({ id }) => url.startsWith(`/v1/webhook_endpoints/${id}`))
    response.setHeader('Content-Type', 'application/json')
    const events = [...form].flatMap(([name, value]) => (name.startsWith('enabled_events') ? [value] : []))
    if (method === 'GET') return response.end(JSON.stringify({ object: 'list', data: endpoints, has_more: false }))
    if (url === '/v1/webhook_endpoints') {
      const id = `we_${secrets.length + 1}`
      const made: Endpoint = {
        id,
        object: 'webhook_endpoint',
        url: form.get('url') ?? '',
        status: 'enabled',
        enabled_events: events,
      }
      endpoints.push(made)
      secrets.push(`whsec_of_${id}`)
      return response.end(JSON.stringify({ ...made, secret: secrets.at(-1) }))
    }
    if (found === undefined) {
      response.statusCode = 404
      return response.end(JSON.stringify({ error: { type: 'invalid_request_error', code: 'resource_missing' } }))
    }
    if (method === 'DELETE') {
      endpoints = endpoints.filter((one) => one !== found)
      return response.end(JSON.stringify({ id: found.id, object: 'webhook_endpoint', deleted: true }))
    }
    Object.assign(found, {
      status: form.get('disabled') === 'false' ? 'enabled' : found.status,
      enabled_events: events,
    })
    return response.end(JSON.stringify(found))
  }
  test.integrations.register('stripe', new StripeProvider({ baseUrl: server.url }), { replace: true })
})
afterEach(() => server.close())

const make = () =>
  makeIntegration(test, 'stripe', { credentials: { api_key: 'sk_test_4eC39HqLyjWDarjtT1zdp7dc' }, metadata: {} })

it('is registered with the secret that Stripe tells once; put right, rotated and removed', async () => {
  const integration = await make()
  const { subscriptionId } = await test.integrations.webhooks.register(integration.id)
  expect(endpoints).toMatchObject([
    {
      id: subscriptionId,
      url: `https://hooks.example.com/integrations/stripe/${integration.id}/webhook`,
      enabled_events: ['*'],
    },
  ])
  expect((await test.integrations.get(integration.id)).credentialsArray().webhook_secret).toBe(secrets[0])
  const rows = await test.sql`select * from integration_requests where integration_id = ${integration.id}`
  expect(JSON.stringify([rows, test.lines])).not.toContain(secrets[0])

  Object.assign(endpoints[0] as object, { status: 'disabled', enabled_events: ['charge.failed'] })
  await test.integrations.webhooks.checkSubscription(integration.id)
  expect(endpoints).toMatchObject([{ id: subscriptionId, status: 'enabled', enabled_events: ['*'] }])

  await test.integrations.webhooks.rotateSecret(integration.id)
  const rotated = await test.integrations.webhooks.checkSubscription(integration.id)
  expect(endpoints).toMatchObject([{ id: rotated.subscriptionId }])
  expect(rotated.subscriptionId).not.toBe(subscriptionId)
  expect((await test.integrations.get(integration.id)).credentialsArray().webhook_secret).toBe(secrets[1])

  endpoints = []
  await test.integrations.webhooks.checkSubscription(integration.id)
  expect(endpoints).toHaveLength(1)
  await test.integrations.delete(integration.id)
  expect(endpoints).toEqual([])
})
