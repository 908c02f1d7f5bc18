/** Every page of the dashboard over a database with one of everything: for who may read and who may operate, with hostile texts and secrets. */
import { Parser } from 'htmlparser2'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SCRIPTS } from '../../../src/api/dashboard/frame/assets.ts'
import { NoWorkerAnswered } from '../../../src/framework/errors.ts'
import type { Dashboard } from '../../support/dashboard.ts'
import { openDashboard } from '../../support/dashboard.ts'
import type { Everything } from '../../support/one-of-everything.ts'
import { DETAILED, makeOneOfEverything } from '../../support/one-of-everything.ts'
import { signIn } from '../../support/operators.ts'
import { syncProvider, webhookProvider } from '../../support/providers.ts'
import { makeItem, makeRun } from '../../support/rows.ts'

/** Names, payloads, errors and ids as an attacker would choose them. */
const HOSTILE = [
  `"><script>alert('x')</script>`,
  `'><img src=x onerror=alert(1)>`,
  '</title></style></script><svg/onload=alert(1)>',
  'javascript:alert(1)//',
  '{{constructor.constructor("alert(1)")()}}<iframe srcdoc="<script>alert(1)</script>">',
  '\u202e<a href=javascript:alert(1)>click</a>\u2028--><!--',
] as const
const CANARY = 'canary-Zr8qW3tN6vYb2mXk'

const LISTS = [
  ...['integrations', 'webhooks', 'sync-runs', 'sync-items', 'requests', 'incidents', 'events', 'logs', 'mappings'],
  ...[
    'idempotency-keys',
    'tokens',
    'audit',
    'failures',
    'doctor',
    'notifications',
    'schedules',
    'configuration',
    'keys',
  ],
]

let dashboard: Dashboard
let plain: Everything

beforeAll(async () => {
  dashboard = await openDashboard({
    providers: { acme: { ...webhookProvider(), ...syncProvider(() => {}) } },
  })
  plain = await makeOneOfEverything(dashboard.test, 'plain words')
})

afterAll(() => dashboard.close())

/** Elements, attributes and addresses that no page of ours has. */
function strangeParts(page: string): string[] {
  const found: string[] = []
  let scripts = 0
  const parser = new Parser({
    onopentag(name, attributes) {
      if (name === 'script' && OWN_SCRIPTS.has(attributes.src ?? '')) scripts += 1
      else if (name === 'script') found.push(`<script src=${attributes.src}>`)
      if (!ELEMENTS.has(name)) found.push(`<${name}>`)
      for (const [attribute, value] of Object.entries(attributes)) {
        if (/^on|^style$|^srcdoc$/.test(attribute)) found.push(`${name} ${attribute}`)
        const leads = ['href', 'src', 'action'].includes(attribute)
        if (leads && !/^(\/operator(\/|\?|$)|#|https:\/\/|\/integrations\/)/.test(value))
          found.push(`${name} ${attribute}=${value}`)
      }
    },
  })
  parser.end(page)
  return scripts === OWN_SCRIPTS.size ? found : [...found, `${scripts} scripts`]
}
const OWN_SCRIPTS = new Set(SCRIPTS.map(({ name }) => `/operator/assets/${name}`))
const ELEMENTS = new Set(
  (
    'html head meta title link script body a div nav details summary h1 h2 h3 ul ol li header form input button span main p section ' +
    'table caption thead tbody tr th td dl dt dd pre code strong label select option small time textarea figure figcaption svg defs ' +
    'marker path rect circle text g progress'
  ).split(' '),
)

const everyPath = (made: Everything): string[] => [
  '',
  '/search',
  ...LISTS.map((section) => `/${section}`),
  ...DETAILED.map((section) => `/${section}/${made[section]}`),
]

describe('every page', () => {
  it('is there for who may read, and offers no act', async () => {
    for (const path of everyPath(plain)) {
      const page = await dashboard.page(path, dashboard.reader)
      const forms = [...page.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, action]) => action)
      expect([path, forms, page.includes('/operator/do/')]).toEqual([path, ['/operator/logout'], false])
    }
  })

  it('is there for who may operate', async () => {
    for (const path of everyPath(plain)) expect(await dashboard.page(path)).toContain('<h1>')
  })

  it('has one name, in the way around, as its title and in its address', async () => {
    const [, around = ''] = /<nav[^>]*>(.*?)<\/nav>/s.exec(await dashboard.page('/audit')) ?? []
    const names = [...around.matchAll(/<a href="\/operator\/([a-z-]+)"[^>]*>([^<]+)<\/a>/g)]
    expect(names.map(([, path]) => path)).toEqual(expect.arrayContaining(LISTS))
    for (const [, path = '', name = ''] of names) {
      expect(await dashboard.page(`/${path}`)).toContain(`<h1>${name}</h1>`)
      expect(name.toLowerCase().replaceAll(' ', '-')).toMatch(new RegExp(`(^|-)${path}$`))
    }
    expect(await dashboard.page(`/logs/${plain.logs}`)).toContain(`<h1>Log ${plain.logs}</h1>`)
  })

  it.each([
    ['/webhooks?event=x', true],
    ['/webhooks?event=x&status=processed', true],
    ['/webhooks?event=x&status=pending', false],
    ['/webhooks?event=x&dismissed=true', false],
    ['/webhooks?event=x&since=2026-01-01T00:00:00Z', false],
    ['/sync-items?stream=x', true],
    ['/sync-items?stream=x&waiting=true', false],
    ['/sync-runs?stream=x', false],
  ])('says of %s whether it looks through a day only: %s', async (path, isOfADay) => {
    expect((await dashboard.page(path)).includes('Of 24 hours alone.')).toBe(isOfADay)
  })

  it('leads to pages that are there', async () => {
    const links = new Set<string>()
    for (const path of everyPath(plain))
      for (const [, href = ''] of (await dashboard.page(path, dashboard.reader)).matchAll(/ href="([^"]+)"/g))
        if (href.startsWith('/operator/') && !href.startsWith('/operator/assets/'))
          links.add(href.replaceAll('&amp;', '&').slice(9))
    expect(links.size).toBeGreaterThan(40)
    for (const href of links)
      expect([href, (await dashboard.get(href)).status]).toEqual([
        href,
        expect.toSatisfy((status) => status === 200 || status === 303),
      ])
  })

  it('is allowed no style and no script but its own, and is neither framed nor kept', async () => {
    for (const path of everyPath(plain)) {
      const answer = await dashboard.get(path)
      const page = await answer.text()
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'content-security-policy': expect.stringMatching(/^default-src 'none'; .*frame-ancestors 'none'/),
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'same-origin',
      })
      expect(page).not.toMatch(/<[^>]+\s(style|on\w+)=/)
      expect([...page.matchAll(/<script nonce="[^"]+" src="[^"]+" defer>/g)]).toHaveLength(SCRIPTS.length)
      expect([...page.matchAll(/<script/g)]).toHaveLength(SCRIPTS.length)
    }
  })
})

it('a list is followed live, unless it ends at a moment', async () => {
  expect(await dashboard.page('/webhooks?event=issues')).toContain('data-live')
  expect(await dashboard.page('/webhooks?until=2031-06-01T12:00:00Z')).not.toContain('data-live')
})

describe('a detail page', () => {
  it('of an integration says where its webhooks go', async () => {
    const page = await dashboard.page(`/integrations/${plain.integrations}`)
    const [, address] = /<dt>Webhooks go to<\/dt><dd>([^<]+)<\/dd>/.exec(page) ?? []
    expect(address).toMatch(new RegExp(`^https?://[^/]+/integrations/acme/${plain.integrations}/webhook$`))
  })

  it('of an integration says in words what its provider can do', async () => {
    const page = await dashboard.page(`/integrations/${plain.integrations}`)
    const [, words] = /<dt>Provider can<\/dt><dd>([^<]+)<\/dd>/.exec(page) ?? []
    expect(words).toBe('receive webhooks, sync on a schedule, state its rate limit')
    expect(page).not.toMatch(/HandlesWebhooks|HasScheduledSync|DeclaresRateLimit/)
  })

  it('tells the life of its record, with links to what it caused and came from', async () => {
    const page = await dashboard.page(`/sync-items/${plain['sync-items']}`)
    expect(page).toContain('Its life')
    expect(page).toContain(`href="/operator/sync-runs/${plain['sync-runs']}">run ${plain['sync-runs']}</a>`)
    expect(page).toContain(`href="/operator/requests/${plain.requests}">request ${plain.requests}</a>`)
  })

  it.each([
    ['webhooks', 'A webhook: failed now'],
    ['sync-runs', 'A sync run: done now'],
    ['sync-items', 'A sync item: failed now'],
    ['incidents', 'An incident: open now'],
    ['idempotency-keys', 'An idempotency key: '],
    ['events', 'A durable event: given_up now'],
    ['integrations', 'Health: healthy now'],
  ] as const)('of %s shows where it stands in its states', async (section, said) => {
    const page = await dashboard.page(`/${section}/${plain[section]}`)
    expect(page).toContain(`aria-label="${said}`)
    expect(page).toContain('<summary>In words</summary>')
  })

  it('of an idempotency key that ends in a line break has its life, as the search has', async () => {
    const { test } = dashboard
    const key = 'order-17\n'
    const [row] = await test.sql`insert into integration_idempotency_keys (integration_id, key)
      values (${plain.integrations}, ${key}) returning id`
    const query = new URLSearchParams({ q: `integration:${plain.integrations}/key:${key}` })
    const pages = [`/idempotency-keys/${row?.id}`, `/search?${query.toString()}`]
    for (const page of pages) expect(await dashboard.page(page)).toContain('Its life')
    await test.sql`delete from integration_idempotency_keys where id = ${row?.id}`
  })

  it('shows a payload as it was delivered, to the last digit', async () => {
    const { test } = dashboard
    await test.sql`update integration_webhooks set payload = ${'{"id":12345678901234567890,"rate":1.50,"a":[],"b":[1,2]}'} where id = ${plain.webhooks}`
    expect(await dashboard.page(`/webhooks/${plain.webhooks}`)).toContain(
      '{\n  &quot;id&quot;: 12345678901234567890,\n  &quot;rate&quot;: 1.50,\n  &quot;a&quot;: [],\n  &quot;b&quot;: [\n    1,\n    2\n  ]\n}',
    )
  })

  it('of a run counts items that wait apart from those that are processed', async () => {
    const { test } = dashboard
    const run = await makeRun(test, plain.integrations)
    await makeItem(test, run, { status: 'processing', nextAttemptAt: new Date() })
    await makeItem(test, run, { status: 'processing' })
    const page = await dashboard.page(`/sync-runs/${run.id}`)
    await test.sql`delete from integration_logs where id = ${run.id}`
    expect(page).toContain(
      `<a href="/operator/sync-items?run=${run.id}&amp;status=processing&amp;waiting=false">1 processing</a>`,
    )
    expect(page).toContain(`<a href="/operator/sync-items?run=${run.id}&amp;waiting=true">1 waiting</a>`)
  })

  it('of a run of a backfill says which day it lists again, as the list does', async () => {
    const { test } = dashboard
    const window = { from: '2031-06-01T12:00:00.000Z', to: '2031-06-02T12:00:00.000Z' }
    const run = await makeRun(test, plain.integrations, { window }, { operation: 'backfill', status: 'success' })
    const [page, list] = [await dashboard.page(`/sync-runs/${run.id}`), await dashboard.page('/sync-runs')]
    await test.sql`delete from integration_logs where id = ${run.id}`
    expect(page).toContain(`Backfill ${run.id}</h1>`)
    expect(page).toMatch(
      /<dt>Lists again<\/dt><dd><time datetime="2031-06-01T12:00:00.000Z".* to <time datetime="2031-06-02/,
    )
    expect(list).toContain('backfill of 2031-06-01T12:00Z')
  })

  it('of a run shows how far its listing is, without the provider’s text', async () => {
    const { test } = dashboard
    const bookmark = { position: 'https://api.example.com/?after=secret', count: 4_321 }
    const run = await makeRun(test, plain.integrations, { enumerated: false, bookmark })
    const page = await dashboard.page(`/sync-runs/${run.id}`)
    await test.sql`delete from integration_logs where id = ${run.id}`
    expect(page).toContain('How far the listing is')
    expect(page).toContain('4321')
    expect(page).not.toContain('after=secret')
  })

  it.each([
    ['that runs', { status: 'processing', isPaused: false }, ['pause', 'cancel'], false],
    ['that is paused', { status: 'processing', isPaused: true }, ['resume', 'cancel'], false],
    ['whose workflow is gone', { status: 'processing', isPaused: null }, ['finalise'], false],
    ['that has ended', { status: 'success', isPaused: null, metadata: { skipped_count: 0 } }, [], true],
    ['whose listing failed', { status: 'failed', isPaused: null }, [], false],
  ] as const)(
    'of a run %s has the buttons that do something, and counts where they are known',
    async (_, of, acts, isCounted) => {
      const { test } = dashboard
      const [run] = await test.sql`
      insert into integration_logs (integration_id, operation, direction, status, metadata)
      values (${plain.integrations}, 'sync', 'inbound', ${of.status},
              ${JSON.stringify('metadata' in of ? of.metadata : {})}::text::jsonb) returning id`
      const before = test.framework.workflows.syncProgress
      Object.assign(test.framework.workflows, {
        syncProgress: async () => (of.isPaused === null ? null : progress(Number(run?.id), of.isPaused)),
      })
      const page = await dashboard.page(`/sync-runs/${run?.id}`)
      Object.assign(test.framework.workflows, { syncProgress: before })
      await test.sql`delete from integration_logs where id = ${run?.id}`
      const offered = [...page.matchAll(/\/do\/post\/(?:integrations|sync-runs)\/\d+\/(\w+)/g)].map(([, verb]) => verb)
      expect(offered).toEqual(acts)
      expect(/<dt>Skipped<\/dt>/.test(page)).toBe(isCounted)
    },
  )

  it('of a failed run says what failed, and that the cursor stayed', async () => {
    const { test } = dashboard
    const shown = async (run: { readonly id: number }) => {
      const page = await dashboard.page(`/sync-runs/${run.id}`)
      await test.sql`delete from integration_logs where id = ${run.id}`
      const [, state] = /<figcaption>(.*?)<\/figcaption>/s.exec(page) ?? []
      const facts = [...page.matchAll(/<dt>([^<]+)<\/dt><dd>(.*?)<\/dd>/gs)]
      return {
        ...Object.fromEntries(facts.map(([, name, value]) => [name, value])),
        state: state?.replaceAll(/<[^>]+>/g, ' '),
      }
    }
    const cursor = { cursor_before: '2031-06-01', cursor_after: '2031-06-01' }
    const ofItems = await makeRun(
      test,
      plain.integrations,
      { ...cursor, enumerated: true, listed: 2, success_count: 0, failure_count: 2, skipped_count: 0 },
      { status: 'failed' },
    )
    expect(await shown(ofItems)).toMatchObject({
      Error: '<a href="#items">2 of its items failed</a>',
      Listed: '2',
      'Cursor after': 'the same',
      state: expect.stringMatching(/^A sync run: +done +now, failed .* done /),
    })
    const { cursor_before } = cursor
    const ofListing = await makeRun(
      test,
      plain.integrations,
      { cursor_before, enumerated: false },
      {
        status: 'failed',
        error: 'the provider is away',
      },
    )
    const listing = await shown(ofListing)
    expect(listing).toMatchObject({
      Error: 'the provider is away',
      Listed: 'not complete',
      'Cursor after': 'the same',
      state: expect.stringMatching(/^A sync run: +failed +now +opening .* failed /),
    })
    expect(listing).not.toHaveProperty('Failed')
  })

  it('of a living run shows how far it is', async () => {
    const { test } = dashboard
    const [run] = await test.sql`
      insert into integration_logs (integration_id, operation, direction, status, metadata)
      values (${plain.integrations}, 'sync', 'inbound', 'processing', '{}') returning id`
    const before = test.framework.workflows.syncProgress
    Object.assign(test.framework.workflows, {
      syncProgress: async () => progress(Number(run?.id), false),
    })
    const page = await dashboard.page(`/sync-runs/${run?.id}`)
    const silent = () => Promise.reject(new NoWorkerAnswered('integrations:sync:7', 5))
    Object.assign(test.framework.workflows, { syncProgress: silent })
    expect(await dashboard.page(`/sync-runs/${run?.id}`)).toContain('Temporal answers, but no worker answered')
    Object.assign(test.framework.workflows, { syncProgress: before })
    await test.sql`delete from integration_logs where id = ${run?.id}`
    expect(page).toContain('<progress aria-label="Items done" max="200" value="51"></progress> 51 of 200')
    expect(page).toContain('A sync run: processing now')
    expect(page).toMatch(/<dt>Items a second<\/dt>\s*<dd>3\.3/)
  })
})

it('the longest page that a list may have is shown', async () => {
  await dashboard.test.sql`insert into integrations (provider, name, credentials)
    select 'acme', 'tenant ' || n, 'sealed' from generate_series(1, 201) n`
  const page = await dashboard.page('/integrations?limit=200')
  await dashboard.test.sql`delete from integrations where name like 'tenant %'`
  expect(page.match(/>tenant \d+</g)).toHaveLength(200)
})

it('the audit says when, and of which integration', async () => {
  const { test } = dashboard
  await test.integrations.admin.operator.note(plain.integrations, { token: 'ada', action: 'look', target: 'webhook:1' })
  const [row = ''] = /<tr><th scope="row">\d+<\/th>.*?<\/tr>/s.exec(await dashboard.page('/audit?action=look')) ?? []
  expect(row).toContain('<time datetime=')
  expect(row).toContain(`<a href="/operator/audit?integration=${plain.integrations}">plain words</a>`)
})

describe('what is not there', () => {
  it.each(['/webhooks/999999', '/sync-runs/0', '/nowhere', '/integrations/1/nowhere', '/logs/99999999999999999999'])(
    '%s is a page that says so',
    async (path) => {
      const answer = await dashboard.get(path)
      const page = await answer.text()
      expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'text/html; charset=UTF-8'])
      expect(page).toContain('role="alert"')
    },
  )

  it('is a problem document to a program', async () => {
    const { api, operator } = dashboard
    const answer = await api.request('/operator/nowhere', { headers: { cookie: operator.cookie } })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'application/problem+json'])
    const below = await api.request('/operator/api/v1/nowhere', {
      headers: { cookie: operator.cookie, accept: 'text/html' },
    })
    expect(below.headers.get('content-type')).toBe('application/problem+json')
  })

  it('is said of a filter that does not fit', async () => {
    const answer = await dashboard.get('/webhooks?status=odd')
    expect(answer.status).toBe(422)
    expect(await answer.text()).toContain('status: one of')
  })
})

it('a token that is limited to some integrations sees no page', async () => {
  const { test, get } = dashboard
  const { token } = await test.integrations.admin.tokens.create({
    name: 'limited',
    scope: 'operate',
    provider: 'acme',
    by: 'a test',
  })
  const limited = await signIn(test.integrations, token)
  for (const path of everyPath(plain)) expect([path, (await get(path, limited)).status]).toEqual([path, 403])
})

it.each(HOSTILE)('shows %j as text on every page', async (text) => {
  const made = await makeOneOfEverything(dashboard.test, text)
  const queries = ['q', 'integration', 'after', 'status', 'event'].map((name) =>
    new URLSearchParams({ [name]: text }).toString(),
  )
  const paths = [
    ...everyPath(made),
    `/search?${queries[0]}`,
    `/search/payloads?${new URLSearchParams({ contains: JSON.stringify(text) }).toString()}`,
    ...queries.flatMap((query) => ['/webhooks', '/sync-items', '/nowhere'].map((path) => `${path}?${query}`)),
  ]
  for (const path of paths) {
    const page = await (await dashboard.get(path)).text()
    expect([path, strangeParts(page)]).toEqual([path, []])
  }
  await dashboard.test.sql`delete from integrations where id = ${made.integrations}`
})

it('shows no secret of an integration, whatever field holds it', async () => {
  const made = await makeOneOfEverything(dashboard.test, 'ordinary', {
    credentials: { token: CANARY, webhook_secret: `${CANARY}-of-webhooks` },
  })
  const { sql } = dashboard.test
  await dashboard.test.integrations.webhooks.rotateSecret(made.integrations, { secret: `${CANARY}-of-webhooks-next` })
  const open = await makeRun(dashboard.test, made.integrations)
  const integration = await dashboard.test.integrations.update(made.integrations, {
    metadata: { note: CANARY, deep: [`x${CANARY}y`] },
  })
  // What is redacted as it is written: a call with its bodies, its address and its error.
  const data = { token: CANARY }
  const answer = () => Response.json({ said: `yes to ${CANARY}` })
  await integration.request(`/things?token=${CANARY}`, 'POST', answer, { data })
  const refused = () => Promise.reject(new Error(`refused: Bearer ${CANARY}`))
  await expect(integration.request('/things', 'POST', refused, { data })).rejects.toThrow()
  const calls = await sql`
    select id from integration_requests where integration_id = ${made.integrations} order by id desc limit 2`
  const callPaths = calls.map(({ id }) => `/requests/${id}`)
  // What is redacted as it is shown: where a provider or a handler may have put what it was given.
  await sql`update integration_webhooks set payload = ${JSON.stringify({ token: CANARY, deep: [{ a: `x${CANARY}y` }] })},
    headers = ${sql.json({ authorization: [`Bearer ${CANARY}`], 'x-key': [CANARY] })} where id = ${made.webhooks}`
  await sql`update integration_sync_items set payload = ${sql.json({ v: 1, data: { token: CANARY } })},
    checkpoint_value = ${sql.json({ t: CANARY })} where id = ${made['sync-items']}`
  const paths = [...everyPath(made), ...callPaths]
  for (const path of paths) {
    expect([path, (await dashboard.page(path)).includes(CANARY)]).toEqual([path, false])
    expect([path, (await liveMessage(path)).includes(CANARY)]).toEqual([path, false])
  }
  for (const path of callPaths) expect(await dashboard.page(path)).toContain('[REDACTED]')
  const page = await dashboard.page(`/integrations/${made.integrations}`)
  expect(page).toContain('x[REDACTED]y')
  expect(page).toMatch(/Former webhook secrets<\/dt><dd>1 in force: until <time/)
  expect(page).toContain(`run ${open.id} under way for less than a minute`)
  const found = await dashboard.page(
    `/search/payloads?${new URLSearchParams({ contains: JSON.stringify({ number: 17 }), kind: 'webhook' }).toString()}`,
  )
  expect(found).not.toContain(CANARY)
})

/** The first that the stream of a page sends. */
async function liveMessage(path: string): Promise<string> {
  const client = new AbortController()
  const answer = await dashboard.api.request(`/operator/live?page=${encodeURIComponent(path)}`, {
    headers: { cookie: dashboard.operator.cookie },
    signal: client.signal,
  })
  const stream = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('\n\n')) {
    const { done, value } = (await stream?.read()) ?? { done: true, value: undefined }
    if (done) break
    text += value
  }
  await stream?.cancel()
  expect([path, text]).toEqual([path, expect.stringContaining('event: main')])
  return text
}

it('serves its pages below a path of the base URL', async () => {
  const below = await openDashboard({ providers: { acme: webhookProvider() }, baseUrl: 'https://api.example.com/hub' })
  const made = await makeOneOfEverything(below.test, 'plain words', { provider: 'acme' })
  for (const path of everyPath(made)) {
    const page = await below.page(path)
    const inside = [...page.matchAll(/ (?:href|src|action)="([^"#]+)/g)].map(([, href = '']) => href)
    expect([path, inside.filter((href) => !href.startsWith('/hub/'))]).toEqual([path, []])
  }
  await below.close()
})

const progress = (syncLogId: number, isPaused: boolean) => ({
  ...{ phase: 'processing', isPaused, syncLogId, listed: 5_200, unchanged: 5_000, succeeded: 50, failed: 1 },
  ...{
    waiting: 0,
    nextAttemptAt: null,
    intakeFrom: null,
    lastFailure: null,
    listingFailure: null,
    perSecond: 3.25,
    secondsLeft: 46,
  },
  startedAt: new Date(),
})
