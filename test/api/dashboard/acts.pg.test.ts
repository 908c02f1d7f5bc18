/** What a person changes in the dashboard. Rule: docs/behaviour/dashboard.md, "Acts". */
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { operations } from '../../../src/api/command-routes.ts'
import { spansOf } from '../../../src/api/dashboard/acts/act-progress-page.ts'
import { ACT_WORDS } from '../../../src/api/dashboard/acts/act-words.ts'
import { groupId } from '../../../src/failures/failure-rules.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { Dashboard } from '../../support/dashboard.ts'
import { openDashboard } from '../../support/dashboard.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import type { SignedIn } from '../../support/operators.ts'
import { BASE_URL, from, OPERATE_TOKEN } from '../../support/operators.ts'
import { CREDENTIALS, incrementalProvider, webhookProvider } from '../../support/providers.ts'
import { makeIntegration, makeWebhook, webhookOf } from '../../support/rows.ts'

const ADDRESS = '203.0.113.7'
const CANARY = 'canary-4f1e-secret-of-a-person'

let dashboard: Dashboard
let test: TestIntegrations
let api: Hono
let reader: SignedIn
let operator: SignedIn
let integration: Integration

beforeAll(async () => {
  dashboard = await openDashboard({
    providers: {
      acme: webhookProvider(),
      plain: incrementalProvider(
        () => {},
        () => {},
      ),
    },
  })
  ;({ test, api, reader, operator } = dashboard)
  integration = await makeIntegration(test, 'acme', { name: 'Acme <b>north</b>', credentials: CREDENTIALS })
})

afterAll(() => dashboard.close())

const get = (path: string, { cookie } = operator, headers: Record<string, string> = {}) =>
  api.request(`/operator${path}`, { headers: { accept: 'text/html', cookie, ...headers } })
const text = async (path: string, who = operator) => (await get(path, who)).text()

function post(
  path: string,
  fields: Record<string, string> = {},
  {
    who = operator,
    headers = {},
    csrf = who.csrfToken,
  }: { who?: SignedIn; headers?: Record<string, string>; csrf?: string } = {},
) {
  return api.request(
    `/operator${path}`,
    {
      method: 'POST',
      headers: {
        origin: BASE_URL,
        cookie: who.cookie,
        'content-type': 'application/x-www-form-urlencoded',
        ...headers,
      },
      body: new URLSearchParams({ csrf_token: csrf, ...fields }).toString(),
    },
    from(ADDRESS),
  )
}

/** The line that the next page shows. */
const noticeOf = (answer: Response): string => {
  const [notice = ''] = answer.headers.getSetCookie().filter((cookie) => cookie.includes('notice'))
  return Buffer.from(/notice=([^;]*)/.exec(notice)?.[1] ?? '', 'base64url').toString()
}
const failed = (times: number, of = integration) =>
  Promise.all(Array.from({ length: times }, () => makeWebhook(test, of.id, { status: 'failed', attempts: 3 })))
const audited = async () => {
  for await (const { by, action, target, from } of test.integrations.admin.audit.list({ limit: 1 }))
    return { by, action, target, from }
  return null
}
/** What the form with this action sends as it stands. */
function fieldsIn(page: string, path: string): Record<string, string> {
  const [, form = ''] = page.split(`action="/operator${path}">`)
  return Object.fromEntries(
    [...(form.split('</form>')[0] ?? '').matchAll(/name="(\w+)" value="([^"]*)"/g)].map(([, name = '', value = '']) => [
      name,
      value,
    ]),
  )
}
const formIdIn = (page: string): string => /name="form_id" value="([^"]+)"/.exec(page)?.[1] ?? ''

const CHANGES = operations().filter(({ method }) => method !== 'get')
const pathOf = ({ method, path }: (typeof CHANGES)[number]) =>
  `/do/${method}${path.replace(':id', String(integration.id))}`

describe('each act of the API', () => {
  it('has its words', () => {
    expect(Object.keys(ACT_WORDS).sort()).toEqual(CHANGES.map(({ method, path }) => `${method} ${path}`).sort())
  })

  it.each([
    [{ outcome: 'started' }, 'A sync run is started.'],
    [{ outcome: 'remembered' }, 'A run is open: one more follows it. If the run is paused, resume it first.'],
    [
      {
        outcome: 'started',
        streams: [
          { outcome: 'started', stream: 'contacts' },
          { outcome: 'later', stream: 'deals', at: '2031-06-01T12:00:00.000Z' },
        ],
      },
      'contacts: A sync run is started. deals: A sync run begins at 2031-06-01 12:00:00.',
    ],
  ])('says what came of a start, of each stream: %j', (result, said) => {
    expect(ACT_WORDS['post /integrations/:id/sync']?.said?.(result)).toBe(said)
  })

  it('says of an event that is not tried again what its status is, and that a worker may have it', () => {
    const said = ACT_WORDS['post /notifications/retry']?.said
    expect(said?.({ retried: 0, status: 'given_up' })).toMatch(/which is given_up, .* unless a worker is delivering/)
    expect(said?.({ retried: 0, status: null })).toBe('Nothing was given up within seven days.')
  })

  it.each([
    ['circuit', 'circuit_breaker', { override: null, state: 'closed' }],
    ['rate-limit', 'rate_limiting', { source: 'provider', limit: 5_000, window_seconds: 3_600 }],
    ['rate-limit', 'rate_limiting', { source: 'none', limit: null, window_seconds: null }],
  ])('claims no override of %s that %s.overrides_enabled keeps from being in force: %j', (what, section, result) => {
    expect(ACT_WORDS[`put /integrations/:id/${what}-override`]?.said?.(result)).toBe(
      `The override is stored, and nothing obeys it: ${section}.overrides_enabled is false.`,
    )
  })

  it.each(CHANGES.map((one) => [`${one.method} ${one.path}`, one] as const))(
    '%s: has a page, which a reader does not see and whose form a reader can not send',
    async (key, operation) => {
      const path = pathOf(operation)
      const page = await get(path)
      // The record of the test is an integration: others have no record of the id, which a question about it says.
      expect([200, 404, 409]).toContain(page.status)
      if (page.status === 200) expect(await page.text()).toContain(ACT_WORDS[key]?.title.split("'")[0])
      expect((await get(path, reader)).status).toBe(403)
      expect((await post(path, {}, { who: reader })).status).toBe(403)
      expect((await post(path, {}, { csrf: 'x' })).status).toBe(403)
      expect((await post(path, {}, { headers: { origin: 'https://evil.example' } })).status).toBe(403)
    },
  )
})

describe('an act on one record', () => {
  it('is done by one click, leads back, says so, and is written down by name and address', async () => {
    const [webhook] = await failed(1)
    const answer = await post(`/do/post/webhooks/${webhook?.id}/dismiss`, {
      back: '/operator/webhooks?status=failed',
    })
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/operator/webhooks?status=failed'])
    expect(noticeOf(answer)).toBe(`Webhook ${webhook?.id} is dismissed.`)
    expect(await audited()).toEqual({
      by: 'operator',
      action: 'dismiss',
      target: `webhook:${webhook?.id}`,
      from: ADDRESS,
    })
  })

  it('by one click, sent twice, does its work once', async () => {
    const [webhook] = await failed(1)
    const path = `/do/post/webhooks/${webhook?.id}/dismiss`
    const form = fieldsIn(await text(`/webhooks/${webhook?.id}`), path)
    const answers = await Promise.all([1, 2].map(() => post(path, form)))
    expect(answers.map(({ status }) => status)).toEqual([303, 303])
    expect(answers.map(noticeOf).sort()).toEqual([
      'This form was sent before: nothing was done again.',
      `Webhook ${webhook?.id} is dismissed.`,
    ])
  })

  it('that takes deliveries away is a link to a page that names the consequence', async () => {
    const { id } = await makeIntegration(test, 'acme')
    expect(await text(`/integrations/${id}`)).toContain(
      `<a class="button" href="/operator/do/post/integrations/${id}/disable">Disable</a>`,
    )
    const page = await text(`/do/post/integrations/${id}/disable`)
    expect(page).toMatch(/answered 404 .*No sync of it starts/)
    expect((await test.integrations.get(id)).isActive).toBe(true)
    const answer = await post(`/do/post/integrations/${id}/disable`, { form_id: formIdIn(page) })
    expect([answer.status, (await test.integrations.get(id)).isActive]).toEqual([303, false])
  })

  it('is told on the next page, once', async () => {
    const [webhook] = await failed(1)
    const answer = await post(`/do/post/webhooks/${webhook?.id}/dismiss`)
    const [cookie = ''] = answer.headers.getSetCookie().filter((each) => each.includes('notice'))
    const told = await get('/webhooks', { ...operator, cookie: `${operator.cookie}; ${cookie.split(';')[0]}` })
    expect(await told.text()).toContain(`role="status">Webhook ${webhook?.id} is dismissed.`)
    expect(told.headers.getSetCookie().find((each) => each.includes('notice'))).toMatch(/Max-Age=0/)
  })

  it('without a place to lead back to leads to the record', async () => {
    const [webhook] = await failed(1)
    const answer = await post(`/do/post/webhooks/${webhook?.id}/dismiss`)
    expect(answer.headers.get('location')).toBe(`/operator/webhooks/${webhook?.id}`)
  })

  it.each(['https://evil.example/', '//evil.example', '/\\evil.example', 'javascript:alert(1)'])(
    'never leads to %s',
    async (back) => {
      const [webhook] = await failed(1)
      const answer = await post(`/do/post/webhooks/${webhook?.id}/dismiss`, { back })
      expect(answer.headers.get('location')).toBe(`/operator/webhooks/${webhook?.id}`)
      const page = await text(`/do/post/webhooks/${webhook?.id}/replay?${new URLSearchParams({ back })}`)
      expect(page).toContain(`<a class="button" href="/operator/webhooks/${webhook?.id}">Back</a>`)
    },
  )

  it('on one record are made in turn with those over the API, whatever the method', async () => {
    const { operator: view } = test.integrations.admin
    const inTurn = vi.spyOn(view, 'inTurn')
    onTestFinished(() => inTurn.mockRestore())
    const path = `integrations/${integration.id}/rate-limit-override`
    const headers = { authorization: `Bearer ${OPERATE_TOKEN}`, 'content-type': 'application/json' }
    const limit = { limit: 7, window_seconds: 60 }
    const overApi = { headers, body: JSON.stringify(limit) }
    const answers = [
      await post(`/do/put/${path}`, { limit: '7', window_seconds: '60' }),
      await api.request(`/operator/api/v1/${path}`, { method: 'PUT', ...overApi }),
      await api.request(`/operator/api/v1/${path}`, { method: 'DELETE', headers }),
      await post(`/do/delete/${path}`),
    ]
    expect(answers.map(({ status }) => status)).toEqual([303, 200, 200, 303])
    expect(inTurn.mock.calls.map(([record]) => record)).toEqual(Array.from({ length: 4 }, () => `/${path}`))
  })

  it('that is refused keeps what was typed and says why', async () => {
    const answer = await post(`/do/put/integrations/${integration.id}/rate-limit-override`, {
      limit: '7',
      window_seconds: 'soon',
    })
    const page = await answer.text()
    expect(answer.status).toBe(422)
    expect(page).toContain('window_seconds: a whole number')
    expect(page).toContain('value="7"')
    expect(page).toContain('value="soon"')
  })

  it('that is refused never shows a secret again', async () => {
    const given = { name: '', credentials: `{"token":"${CANARY}"`, provider: 'acme' }
    for (const answer of [
      await post('/do/post/integrations', given),
      await post(`/do/patch/integrations/${integration.id}`, { credentials: given.credentials }),
      await post(`/do/post/integrations/${integration.id}/rotate-webhook-secret`, { secret: CANARY }),
    ]) {
      const page = await answer.text()
      expect([answer.status, page.includes(CANARY)], page).toEqual([422, false])
    }
  })
})

describe('an act that can not be undone', () => {
  const deletion = (id: number, fields: Record<string, string>) => post(`/do/delete/integrations/${id}`, fields)

  it('is refused without the tick', async () => {
    const answer = await post(`/do/delete/integrations/${integration.id}/cursor`)
    expect([answer.status, (await answer.text()).includes('is_agreed: tick the box')]).toEqual([422, true])
  })

  it.each([{ is_agreed: 'true' }, { is_agreed: 'true', typed_name: 'acme' }, { typed_name: 'Acme <b>north</b>' }])(
    'asks for the name of what is deleted: %j',
    async (fields) => {
      const answer = await deletion(integration.id, fields)
      const page = await answer.text()
      expect(answer.status).toBe(422)
      expect(page).not.toContain('<b>north')
      expect(await test.integrations.get(integration.id)).toMatchObject({ name: 'Acme <b>north</b>' })
    },
  )

  it('asks for the name as the page shows it: with each run of blanks and line breaks as one blank', async () => {
    const { id } = await makeIntegration(test, 'acme', { name: 'Two\nlines,  two blanks ' })
    const refused = await deletion(id, { is_agreed: 'true', typed_name: 'Twolines, two blanks' })
    expect(refused.status).toBe(422)
    const answer = await deletion(id, { is_agreed: 'true', typed_name: 'Two lines, two blanks' })
    expect([answer.status, noticeOf(answer)]).toEqual([303, expect.stringContaining(`Deleted integration ${id}`)])
  })

  it('is done with both, and leads to the list', async () => {
    const { id, name } = await makeIntegration(test, 'acme', { name: 'To be deleted' })
    await failed(2, await test.integrations.get(id))
    const fields = { is_agreed: 'true', typed_name: name, back: `/operator/integrations/${id}` }
    const answer = await deletion(id, fields)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/operator/integrations'])
    expect(noticeOf(answer)).toMatch(new RegExp(`^Deleted integration ${id}: \\d+ rows\\.$`))
    expect(await audited()).toMatchObject({ by: 'operator', action: 'delete', from: ADDRESS })
  })
})

describe('an act on all that a filter finds', () => {
  it('says how many of how many integrations, does no more, and shows how far they are', async () => {
    const [one, two] = [await makeIntegration(test, 'acme'), await makeIntegration(test, 'acme')]
    const rows = [...(await failed(3, one)), ...(await failed(2, two))]
    for (const { id } of rows) await test.sql`update integration_webhooks set event_type = 'of.two' where id = ${id}`
    const page = await text('/do/post/webhooks/replay?event=of.two')
    expect(page).toContain('Replay 5 webhooks of 2 integrations')
    const form = { event: 'of.two', limit: '5', form_id: formIdIn(page) }
    const answer = await post('/do/post/webhooks/replay', form)
    const location = answer.headers.get('location') ?? ''
    expect([answer.status, noticeOf(answer)]).toEqual([303, '5 webhooks of 2 integrations wait to run again.'])
    const progress = await text(location.replace('/operator', ''))
    expect(progress).toContain('Under way: 5 webhooks')
    expect(progress).toContain('data-live')
    await test.sql`update integration_webhooks set status = 'processed', updated_at = now() where event_type = 'of.two'`
    const done = await text(location.replace('/operator', ''))
    expect(done).toContain('Done: 5 webhooks')
    expect(done).toContain('5 of 5 settled.')
    expect(done).not.toContain('data-live')
  })

  it('tries no more of a group of failures than the question named', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const failedNow = () =>
      makeWebhook(test, id, { status: 'failed', error: 'of a group', attempts: 3, processedAt: new Date() })
    const asked = await failedNow()
    const group = groupId('webhook', 'of a group')
    const page = await text(`/do/post/failures/retry?group=${group}`)
    expect(page).toContain('Try 1 webhooks of 1 integrations again')
    const later = await failedNow()
    const fields = fieldsIn(page, '/do/post/failures/retry')
    expect((await post('/do/post/failures/retry', fields)).status).toBe(303)
    const states = await Promise.all([asked, later].map(async (row) => (await webhookOf(test, row.id)).status))
    expect(states).toEqual(['pending', 'failed'])
  })

  it('asks nothing about a group with nothing to try', async () => {
    const gone = { status: 'failed', error: 'of an erased one', payload: '', headers: {} } as const
    await makeWebhook(test, integration.id, { ...gone, attempts: 3, processedAt: new Date() })
    const page = await text(`/do/post/failures/retry?group=${groupId('webhook', 'of an erased one')}`)
    expect(page).toContain('there is nothing to do')
    expect(formIdIn(page)).toBe('')
  })

  it('sent twice does its work once', async () => {
    const rows = await failed(2)
    const page = await text(`/do/post/webhooks/replay?integration=${integration.id}&limit=1`)
    const form = { integration: String(integration.id), limit: '1', form_id: formIdIn(page) }
    const answers = await Promise.all([1, 2].map(() => post('/do/post/webhooks/replay', form)))
    expect(answers.map(({ status }) => status)).toEqual([303, 303])
    expect(answers.map(noticeOf).sort()).toEqual([
      '1 webhook of 1 integration wait to run again.',
      'This form was sent before: nothing was done again.',
    ])
    const states = await Promise.all(rows.map(async ({ id }) => (await webhookOf(test, id)).status))
    expect(states.filter((status) => status === 'pending')).toHaveLength(1)
  })

  it('is not offered where the filter means what the act does not know', async () => {
    const offered = async (query: string) =>
      [...(await text(`/webhooks?${query}`)).matchAll(/(Replay|Dismiss) all of these/g)].map(([, name]) => name)
    await makeWebhook(test, integration.id, { status: 'processed', attempts: 1 })
    expect(await offered('status=failed')).toEqual(['Replay', 'Dismiss'])
    expect(await offered('status=processed')).toEqual(['Replay'])
    expect(await offered('status=pending')).toEqual([])
  })

  it('says so where there is nothing to do', async () => {
    const page = await text('/do/post/webhooks/replay?event=never.sent')
    expect(page).toContain('there is nothing to do')
    expect(formIdIn(page)).toBe('')
  })

  it.each([
    ['kind=cat&rows=1&ids=1&since=2031-01-01T00:00:00Z', 'kind'],
    ['kind=item&rows=0&ids=1&since=2031-01-01T00:00:00Z', 'rows'],
    ['kind=item&rows=1&ids=1;drop&since=2031-01-01T00:00:00Z', 'ids'],
    ['kind=item&rows=1&ids=1&since=later', 'since'],
    // A date of JavaScript's, and none of Postgres'.
    ['kind=item&rows=1&ids=1&since=%2B275760-09-13T00:00:00.000Z', 'since'],
  ])('refuses the progress of %s', async (query, field) => {
    const answer = await get(`/progress?${query}`)
    expect([answer.status, (await answer.text()).includes(`<li>${field}:`)]).toEqual([422, true])
  })
})

describe('what is seen once', () => {
  it('is the token that was made: in the answer, in no cookie, and in no list', async () => {
    const answer = await post('/do/post/tokens', { name: 'grafana', scope: 'read' })
    const page = await answer.text()
    const token = /<pre[^>]*data-copy>([^<]+)<\/pre>/.exec(page)?.[1] ?? ''
    expect([answer.status, token.length > 20]).toEqual([200, true])
    expect(answer.headers.getSetCookie()).toEqual([])
    expect(await text('/tokens')).not.toContain(token)
    expect(await text('/audit')).not.toContain(token)
  })
})

describe('spans of ids', () => {
  it.each([
    [[], []],
    [[3], [[3, 3]]],
    [
      [5, 3, 4, 9],
      [
        [3, 5],
        [9, 9],
      ],
    ],
  ])('%j', (ids, spans) => expect(spansOf(ids)).toEqual(spans))

  it('are one where they would be too many for an address', () => {
    const ids = Array.from({ length: 1_000 }, (_, at) => at * 2 + 1)
    expect(spansOf(ids)).toEqual([[1, 1_999]])
  })
})
