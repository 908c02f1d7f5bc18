/** The tutorials' CRM: sandbox/README.md, "The CRM". */
import { createHmac } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CRM_API_KEY, createCrmSandbox } from '../../sandbox/crm/server.ts'
import type { HttpServer } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'

const NOW = new Date('2026-03-01T12:00:00.000Z')
const ADA = { id: 'con_1', name: 'Ada Lovelace', email: 'ada@example.com', updated_at: '2026-01-05T09:00:00.000Z' }

let crm: ReturnType<typeof createCrmSandbox>
beforeEach(() => {
  crm = createCrmSandbox({ now: () => NOW })
})

async function ask(path: string, init: RequestInit = {}): Promise<{ status: number; body: unknown }> {
  const headers = new Headers(init.headers)
  if (!headers.has('authorization')) headers.set('authorization', `Bearer ${CRM_API_KEY}`)
  const response = await crm.request(path, { ...init, headers })
  return { status: response.status, body: await response.json() }
}

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  ask(path, { method: 'POST', body: JSON.stringify(body), headers })

describe("the CRM's API", () => {
  it('lets in its one key only', async () => {
    expect(await ask('/v1/me')).toEqual({ status: 200, body: { id: 'acc_1', name: 'Example Ltd' } })
    expect(await ask('/v1/me', { headers: { authorization: 'Bearer another' } })).toMatchObject({ status: 401 })
  })

  it('lists each contact once over its pages, and from a time on', async () => {
    const ids: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const { body } = await ask(`/v1/contacts?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
      const page = body as { contacts: { id: string }[]; next_cursor: string | null }
      ids.push(...page.contacts.map(({ id }) => id))
      cursor = page.next_cursor
    }
    expect(ids).toEqual(['con_1', 'con_2', 'con_3', 'con_4', 'con_5'])
    expect(await ask('/v1/contacts?updated_since=2026-01-05T13:00:00Z')).toMatchObject({
      body: { contacts: [{ id: 'con_5' }], next_cursor: null },
    })
    expect(await ask('/v1/contacts?limit=0')).toMatchObject({ status: 400 })
  })

  it('makes one contact of a key, and refuses another body under it', async () => {
    const contact = { name: 'Mary Jackson', email: 'mary@example.com' }
    const key = { 'idempotency-key': 'k-1' }
    const first = await post('/v1/contacts', contact, key)
    expect(first).toEqual({ status: 201, body: { id: 'con_6', ...contact, updated_at: NOW.toISOString() } })
    expect(await post('/v1/contacts', contact, key)).toEqual(first)
    expect(await post('/v1/contacts', { ...contact, name: 'Mary' }, key)).toMatchObject({ status: 409 })
    expect(await post('/v1/contacts', contact)).toMatchObject({ status: 201, body: { id: 'con_7' } })
  })

  it('answers 400 to what is not a contact', async () => {
    expect(await post('/v1/contacts', { name: '' })).toMatchObject({ status: 400 })
    expect(await ask('/v1/contacts', { method: 'POST', body: '{' })).toMatchObject({ status: 400 })
  })
})

describe("the CRM's control endpoints", () => {
  let server: HttpServer
  beforeEach(async () => {
    server = await startHttpServer()
  })
  afterEach(() => server.close())

  it('sign what they send: the time and the body', async () => {
    await ask('/_sandbox/webhook', { method: 'PUT', body: JSON.stringify({ url: server.url, secret: 'a-secret' }) })
    const contact = { ...ADA, name: 'Ada King', updated_at: NOW.toISOString() }
    const change = { method: 'PATCH', body: JSON.stringify({ name: 'Ada King' }) }
    expect(await ask('/_sandbox/contacts/con_1', change)).toEqual({
      status: 200,
      body: { contact, webhook: { id: 'evt_1', type: 'contact.updated', status: 200 } },
    })
    const [received] = server.received
    const body = received?.body ?? ''
    expect(JSON.parse(body)).toEqual({ id: 'evt_1', type: 'contact.updated', contact })
    const seconds = NOW.getTime() / 1000
    const digest = createHmac('sha256', 'a-secret').update(`${seconds}.${body}`).digest('hex')
    expect(received?.headers['crm-signature']).toBe(`t=${seconds},v1=${digest}`)
  })

  it('send nothing before they know where to', async () => {
    const added = await post('/_sandbox/contacts', { name: 'Mary Jackson', email: 'mary@example.com' })
    expect(added).toMatchObject({ status: 201, body: { contact: { id: 'con_6' }, webhook: null } })
    expect(await ask('/_sandbox/contacts/con_9', { method: 'PATCH', body: '{}' })).toMatchObject({ status: 404 })
  })

  it('fail as many requests as was ordered', async () => {
    await post('/_sandbox/faults', { match: 'GET /v1/contacts', times: 1, status: 503 })
    expect(await ask('/v1/me')).toMatchObject({ status: 200 })
    expect(await ask('/v1/contacts')).toMatchObject({ status: 503 })
    expect(await ask('/v1/contacts')).toMatchObject({ status: 200 })
  })

  it('are not for web pages', async () => {
    const order = { match: '* *', times: 1, status: 503 }
    expect(await post('/_sandbox/faults', order, { origin: 'https://evil.example' })).toMatchObject({ status: 403 })
  })
})
