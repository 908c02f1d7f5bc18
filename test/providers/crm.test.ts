/** The CRM of docs/writing-a-provider.md: what the page shows is what runs here. */
import { readFile } from 'node:fs/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { createTestIntegrations, describeProvider, playedTransport } from '../../src/testing/index.ts'
import { keepCrm, TABLES } from './crm-host.ts'
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
    credentials: { token: TOKEN },
    api: apiOf(world(25)),
    streams: {
      contacts: { checkpoints: [at(1), at(2), at(3)], cursor: at(12) },
      deals: { checkpoints: [at(1), at(2), at(3)], cursor: at(12) },
    },
    kit: { now: NOW },
  },
  { describe, it, afterAll },
)

describe('the CRM of the page', () => {
  it('is shown as it is, in 120 lines at most', async () => {
    const page = await readFile(new URL('../../docs/writing-a-provider.md', import.meta.url), 'utf8')
    const section = page.split('\n## A CRM in one sitting\n')[1]?.split('\n## ')[0] ?? ''
    const shown = [...section.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code.replace(/^\/\/ \S+\n/, ''))
    const files = await Promise.all(
      ['crm-provider.ts', 'crm-host.ts'].map((name) => readFile(new URL(name, import.meta.url), 'utf8')),
    )
    expect(shown).toEqual(files)
    expect(shown.join('').trimEnd().split('\n').length).toBeLessThanOrEqual(120)
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
        credentials: { token: TOKEN },
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
