/** The CRM of docs/writing-a-provider.md: what the page shows is what runs here. */
import { readFile } from 'node:fs/promises'
import { afterAll, describe, expect, it } from 'vitest'
import type { PlayedApi } from '../../src/testing/index.ts'
import { createTestIntegrations, describeProvider, playedTransport } from '../../src/testing/index.ts'
import { keepCrm, TABLES } from './crm-host.ts'
import { CrmWithOAuth } from './crm-oauth.ts'
import { crm } from './crm-provider.ts'

const NOW = '2031-01-01T12:00:00Z'
const TOKEN = 'a-token-of-a-crm'
const at = (minute: number) => new Date(Date.UTC(2031, 0, 1, 0, minute)).toISOString()

function world(count: number) {
  const numbers = Array.from({ length: count }, (_, n) => n)
  return {
    contacts: numbers.map((n) => ({ id: `c${n}`, name: `Contact ${n}`, updated_at: at(n) })),
    deals: numbers.map((n) => ({ id: `d${n}`, contact_id: `c${n}`, title: `Deal ${n}`, updated_at: at(n) })),
  }
}

const SIZE = 10

function apiOf({ contacts, deals }: ReturnType<typeof world>) {
  return ({ url }: Request) => {
    const { pathname, searchParams } = new URL(url)
    const since = searchParams.get('since') ?? ''
    if (pathname === '/v1/contacts') {
      const from = Number(searchParams.get('cursor'))
      const found = contacts.filter(({ updated_at }) => updated_at >= since)
      const next = from + SIZE < found.length ? String(from + SIZE) : null
      return Response.json({ contacts: found.slice(from, from + SIZE), next_cursor: next })
    }
    const page = Number(searchParams.get('page'))
    const found = deals.filter(({ updated_at }) => updated_at >= since)
    return Response.json({
      deals: found.slice((page - 1) * SIZE, page * SIZE),
      total_pages: Math.ceil(found.length / SIZE),
    })
  }
}

describeProvider(
  'crm',
  () => crm,
  {
    credentials: { access_token: TOKEN },
    api: apiOf(world(25)),
    write: null,
    streams: {
      contacts: { checkpoints: [at(1), at(2), at(3)], cursor: at(12) },
      deals: { checkpoints: [at(1), at(2), at(3)], cursor: at(12) },
    },
    kit: { now: NOW },
  },
  { describe, it, afterAll },
)

const CLIENT = { id: 'the-client-of-a-host', secret: 'the-secret-of-a-client' }

/**
 * The same API behind tokens, each good until the next one is given out. The first lasts an hour, the next ones longer: their end is
 * told by the machine's clock, which does not move with that of the kit.
 */
function behindTokens(api: PlayedApi) {
  const asked: URLSearchParams[] = []
  const answer: PlayedApi = async (request) => {
    const { origin, pathname } = new URL(request.url)
    if (origin === 'https://api.crm.example') {
      const isKnown = request.headers.get('authorization') === `Bearer access-token-${asked.length}`
      return isKnown ? api(request) : Response.json({ error: 'invalid_token' }, { status: 401 })
    }
    if (pathname === '/revoke') return new Response(null)
    const tokens = { access_token: `access-token-${asked.push(new URLSearchParams(await request.text()))}` }
    const refresh = { refresh_token: `refresh-token-${asked.length}` }
    return Response.json({ ...tokens, ...refresh, token_type: 'Bearer', expires_in: asked.length * 3_600 })
  }
  return { asked, answer }
}

describeProvider(
  'crm',
  () => new CrmWithOAuth(CLIENT),
  {
    credentials: { access_token: TOKEN, refresh_token: 'a-refresh-token-of-a-crm' },
    secrets: [CLIENT.secret, 'an-access-token-to-come', 'a-refresh-token-to-come'],
    api: (request) => {
      if (new URL(request.url).origin === 'https://api.crm.example') return apiOf(world(25))(request)
      const tokens = { access_token: 'an-access-token-to-come', refresh_token: 'a-refresh-token-to-come' }
      return Response.json({ ...tokens, token_type: 'Bearer', expires_in: 3_600 })
    },
    write: null,
    streams: {
      contacts: { checkpoints: [at(1), at(2), at(3)], cursor: at(12) },
      deals: { checkpoints: [at(1), at(2), at(3)], cursor: at(12) },
    },
    kit: { now: NOW },
  },
  { describe, it, afterAll },
)

describe('the CRM with OAuth', () => {
  it('stores tokens at the callback, and both streams share one refresh', async () => {
    const { asked, answer } = behindTokens(apiOf(world(12)))
    const kit = await createTestIntegrations({
      providers: { crm: new CrmWithOAuth(CLIENT) },
      transport: playedTransport(answer),
      baseUrl: 'https://host.example',
    })
    try {
      const { id } = await kit.integrations.create({ provider: 'crm', name: 'ours', credentials: {} })
      const { url } = await kit.integrations.oauth.start(id)
      const { origin, searchParams } = new URL(url)
      expect(origin).toBe('https://login.crm.example')
      const query = new URLSearchParams({ state: searchParams.get('state') ?? '', code: 'a-code' })
      const answered = await kit.api.request(`/integrations/oauth/callback?${query}`)
      expect(answered.status).toBe(302)
      expect(asked.map((form) => form.get('grant_type'))).toEqual(['authorization_code'])

      const integration = await kit.integrations.get(id)
      expect((await kit.sync(integration, 'contacts')).items).toHaveLength(12)
      kit.clock.advance({ minutes: 56 })
      const [contacts, deals] = await Promise.all([
        kit.sync(await kit.integrations.get(id), 'contacts'),
        kit.sync(await kit.integrations.get(id), 'deals'),
      ])
      expect([contacts.result.kind, deals.result.kind]).toEqual(['success', 'success'])
      expect(asked.map((form) => form.get('grant_type'))).toEqual(['authorization_code', 'refresh_token'])
      expect(asked[1]?.get('refresh_token')).toBe('refresh-token-1')
    } finally {
      await kit.close()
    }
  }, 60_000)
})

describe('the CRM of the page', () => {
  it('is shown as it is, in 120 lines at most', async () => {
    const page = await readFile(new URL('../../docs/writing-a-provider.md', import.meta.url), 'utf8')
    const section = page.split('\n## A CRM in one sitting\n')[1]?.split('\n## ')[0] ?? ''
    const shown = [...section.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code.replace(/^\/\/ \S+\n/, ''))
    const files = await Promise.all(
      ['crm-provider.ts', 'crm-host.ts', 'crm-oauth.ts'].map((name) =>
        readFile(new URL(name, import.meta.url), 'utf8'),
      ),
    )
    expect(shown).toEqual(files)
    expect(shown.slice(0, 2).join('').trimEnd().split('\n').length).toBeLessThanOrEqual(120)
  })

  it('keeps the tables of its host as the CRM has them', async () => {
    const data = world(25)
    const transport = playedTransport((request) => apiOf(data)(request))
    const kit = await createTestIntegrations({ providers: { crm }, transport, now: NOW })
    try {
      await kit.sql.unsafe(TABLES)
      keepCrm(kit.integrations, kit.sql)
      const integration = await kit.integrations.create({
        provider: 'crm',
        name: 'ours',
        credentials: { access_token: TOKEN },
      })
      expect((await kit.sync(integration, 'contacts')).items).toHaveLength(25)
      expect((await kit.sync(integration, 'deals')).items).toHaveLength(25)
      Object.assign(data.deals[3] as object, { title: 'Won', updated_at: at(60) })
      const { items } = await kit.sync(integration, 'deals')
      // From the cursor of the deals on, which is the newest of their first run.
      expect(items.map(({ externalId }) => externalId)).toEqual(['d3', 'd24'])
      expect(await kit.sql`select title from deals where id = 'd3'`).toMatchObject([{ title: 'Won' }])
      expect(await kit.sql`select count(*)::int as n from contacts`).toMatchObject([{ n: 25 }])
    } finally {
      await kit.close()
    }
  })
})
