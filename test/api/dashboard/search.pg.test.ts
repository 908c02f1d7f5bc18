/** The one search box, and the search in payloads. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Dashboard } from '../../support/dashboard.ts'
import { openDashboard } from '../../support/dashboard.ts'
import type { Everything } from '../../support/one-of-everything.ts'
import { makeOneOfEverything } from '../../support/one-of-everything.ts'
import { syncProvider, webhookProvider } from '../../support/providers.ts'

let dashboard: Dashboard
let made: Everything
let other: Everything

beforeAll(async () => {
  dashboard = await openDashboard({ providers: { acme: { ...webhookProvider(), ...syncProvider(() => {}) } } })
  made = await makeOneOfEverything(dashboard.test, 'shared words')
  other = await makeOneOfEverything(dashboard.test, 'shared words')
})
afterAll(() => dashboard.close())

const search = (q: string) => dashboard.get(`/search?${new URLSearchParams({ q }).toString()}`)
const payloads = (words: Record<string, string>) =>
  dashboard.page(`/search/payloads?${new URLSearchParams(words).toString()}`)

describe('the search', () => {
  it.each([
    ['webhook', 'webhooks'],
    ['item', 'sync-items'],
    ['run', 'sync-runs'],
    ['request', 'requests'],
    ['incident', 'incidents'],
    ['event', 'events'],
    ['log', 'logs'],
    ['mapping', 'mappings'],
    ['integration', 'integrations'],
  ] as const)('leads from the id of a %s to its page', async (kind, section) => {
    const answer = await search(`${kind}:${made[section]}`)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, `/operator/${section}/${made[section]}`])
  })

  it('leads from a delivery id to its webhook', async () => {
    const answer = await search(`d-${made.integrations}-shared words`)
    expect(answer.headers.get('location')).toBe(`/operator/webhooks/${made.webhooks}`)
  })

  it('lists what several records have', async () => {
    const page = await (await search('shared words')).text()
    expect(page).toContain('Several records have it')
    for (const { integrations } of [made, other])
      expect(page).toContain(`integration:${integrations}/external:shared words`)
  })

  it('tells the life of what has no page of its own', async () => {
    const page = await (await search(`integration:${made.integrations}/external:shared words`)).text()
    expect(page).toContain(`item ${made['sync-items']} failed`)
  })

  it('says what may be looked for where nothing is found', async () => {
    const answer = await search('nobody knows this')
    expect(answer.status).toBe(404)
    expect(await answer.text()).toMatch(/Nothing found.*What may be looked for/s)
  })
})

describe('a word that is no id', () => {
  it('is no failure: the page leads to the search for it in payloads', async () => {
    const answer = await search('shared <words> nowhere')
    const text = await answer.text()
    expect(text).toContain('Nothing has this id: <code>shared &lt;words&gt; nowhere</code>')
    expect(text).not.toContain('role="alert"')
    const [, link = ''] = /href="\/operator(\/search\/payloads[^"]+)"/.exec(text) ?? []
    expect(await dashboard.page(link)).toContain('None of them holds it.')
    expect(await dashboard.page(link.replace(/contains=[^&]*/, 'contains=%22shared+words%22'))).toContain(
      '/operator/webhooks/',
    )
  })
})

describe('the search in payloads', () => {
  it.each([
    ['webhook', 'webhooks'],
    ['item', 'sync-items'],
  ] as const)('finds a %s by a piece of what it holds, at any depth', async (kind, section) => {
    const page = await payloads({ contains: '{"number":17}', kind, integration: String(made.integrations) })
    expect(page).toContain(`<a href="/operator/${section}/${made[section]}">${made[section]}</a>`)
    expect(page).not.toContain(`/operator/${section}/${other[section]}"`)
    expect(await payloads({ contains: '{"number":18}', kind })).toContain('None of them holds it.')
  })

  it('looks no further back than it is told', async () => {
    await dashboard.test
      .sql`update integration_webhooks set created_at = now() - interval '5 hours' where id = ${made.webhooks}`
    const words = { contains: '"shared words"', integration: String(made.integrations) }
    expect(await payloads({ ...words, hours: '4' })).toContain('None of them holds it.')
    expect(await payloads({ ...words, hours: '6' })).toContain(`/operator/webhooks/${made.webhooks}`)
  })

  it('says that there may be more', async () => {
    expect(await payloads({ contains: '"shared words"', kind: 'item', limit: '1' })).toContain(
      'Not all of them: there may be more',
    )
  })

  it('refuses what is no JSON', async () => {
    const answer = await dashboard.get('/search/payloads?contains=nope')
    expect([answer.status, await answer.text()]).toEqual([422, expect.stringContaining('contains: JSON is allowed')])
  })
})
