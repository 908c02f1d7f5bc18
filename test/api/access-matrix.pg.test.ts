/** Each route × each way of calling: who gets what. Rule: docs/behaviour/access.md. */
import { eq } from 'drizzle-orm'
import { Hono } from 'hono'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { middlewareOf } from '../../src/api/middleware.ts'
import type { HasBackfill, ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, from, OPERATE_TOKEN, READ_TOKEN, signIn, TOKENS, WRONG_TOKEN } from '../support/operators.ts'
import { CREDENTIALS, sign, syncProvider, webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'
import { oauthScript } from './oauth-visit.ts'

/**
 * Ways of calling: nobody, tokens (read, operate, wrong), sessions (read, operate, operate without a CSRF token, operate from a
 * foreign page), signed links (right, expired, of another id, of another action), in `dev` (a browser that has opened the address it logs, what looks
 * like this machine but may be a proxy, its token, that browser on a foreign page), and nobody where no token is configured.
 */
const MATRIX = `
  route              nobody read operate wrong  s-read s-operate s-no-csrf s-foreign  link old id action  dev proxied d-token d-foreign  no-tokens
  POST webhook        200    200   200    200    200     200       200       200       200 200 200 200    200   200    200     200      200
  GET healthz         200    200   200    200    200     200       200       200       200 200 200 200    200   200    200     200      200
  GET readyz          200    200   200    200    200     200       200       200       200 200 200 200    200   200    200     200      200
  GET login           200    200   200    200    200     200       200       200       200 200 200 200    200   200    200     200      404
  POST login          403    303   303    303    303     303       303       403       303 303 303 303    401   401    401     403      404
  POST logout         403    303   303    303    303     303       403       403       303 303 303 303    303   303    303     403      404
  GET logout          401    404   404    401    404     404       404       404       401 401 401 401    404   401    404     404      404
  GET page            401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST page/enable    401    403   303    401    403     303       403       403       401 401 401 401    303   401    303     403      404
  POST page/disable   401    403   303    401    403     303       403       403       401 401 401 401    303   401    303     403      404
  GET api             401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api            401    403   201    401    403     201       403       403       401 401 401 401    201   401    201     403      404
  GET api/id          401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  HEAD api/id         401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  PATCH api/id        401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  DELETE api/id       401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/enable     401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/disable    401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/reconcile  401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/rotate     401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  GET api/oauth       401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api/link       401    403   200    401    403     200       403       403       401 401 401 401    500   401    500     403      404
  POST api/revoke     401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/refresh    401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  GET api/webhooks    401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/webhook     401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api/replay     401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/replay/id  401    403   202    401    403     202       403       403       401 401 401 401    202   401    202     403      404
  POST api/sync       401    403   202    401    403     202       403       403       401 401 401 401    202   401    202     403      404
  GET api/sync        401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api/pause      401    403   202    401    403     202       403       403       401 401 401 401    202   401    202     403      404
  POST api/resume     401    403   202    401    403     202       403       403       401 401 401 401    202   401    202     403      404
  POST api/cancel     401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/backfill   401    403   202    401    403     202       403       403       401 401 401 401    202   401    202     403      404
  POST api/sample     401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  PUT api/cursor      401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  DELETE api/cursor   401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  PUT api/interval    401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  DELETE api/interval 401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  GET api/sync-runs   401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/sync-run    401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api/finalise   401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  GET api/sync-items  401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/sync-item   401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api/retry      401    403   202    401    403     202       403       403       401 401 401 401    202   401    202     403      404
  POST api/skip       401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  GET api/incidents   401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/incident    401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/health      401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/stats       401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api/ack        401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/snooze     401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/annotate   401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  POST api/dismiss    401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  GET api/audit       401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/tokens      401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  POST api/tokens     401    403   201    401    403     201       403       403       401 401 401 401    201   401    201     403      404
  DELETE api/token    401    403   200    401    403     200       403       403       401 401 401 401    200   401    200     403      404
  GET incidents       401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET api/unknown     401    404   404    401    404     404       404       404       401 401 401 401    404   401    404     404      404
  GET connect         401    403   200    401    403     200       200       200       200 401 401 401    200   401    200     200      401
  GET authorize       401    403   302    401    403     302       302       302       302 401 401 401    302   401    302     302      401
  GET revoke          401    403   200    401    403     200       200       200       200 401 401 401    200   401    200     200      401
  POST revoke         401    403   200    401    403     302       302       403       302 401 401 401    302   401    200     403      401
  GET metrics         401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      404
  GET callback        400    400   400    400    400     400       400       400       400 400 400 400    400   400    400     400      400
  GET connected       200    200   200    200    200     200       200       200       200 200 200 200    200   200    200     200      200
  GET web             401    403   200    401    403     200       200       200       200 401 401 401    200   401    200     200      401
  POST web            401    403   200    401    403     200       200       403       200 401 401 401    200   401    200     403      401
  GET signed          403    403   403    403    403     403       403       403       200 403 403 403    403   403    403     403      403
  POST signed         403    403   403    403    403     403       403       403       200 403 403 403    403   403    403     403      403
  GET same-origin     200    200   200    200    200     200       200       200       200 200 200 200    200   200    200     200      200
  POST same-origin    403    200   200    200    200     200       200       403       200 200 200 200    200   200    200     403      403
  GET operator        401    200   200    401    200     200       200       200       401 401 401 401    200   401    200     200      401
  POST operator       401    403   200    401    403     200       200       403       401 401 401 401    200   401    200     403      401
`

const [HEAD = '', ...LINES] = MATRIX.trim().split('\n')
const CALLERS = HEAD.trim().split(/\s+/).slice(1)
const ROWS = LINES.map((line) => {
  const [method, name, ...statuses] = line.trim().split(/\s+/)
  return [`${method} ${name}`, statuses.map(Number)] as const
})

type Kind = 'tokens' | 'dev' | 'none'
interface Place {
  readonly test: TestIntegrations
  readonly api: Hono
  /** Routes such as OAuth's, behind one named middleware each. */
  readonly guarded: Readonly<Record<string, Hono>>
}

let database: TestDatabase
let places: Record<Kind, Place>
let id: number
let otherId: number
let listingId: number
/** Settled, so that it can be replayed. */
let webhookId: number
let syncedId: number
let runId: number
let itemId: number
let incidentId: number
let tokenId: number
let tokensMade = 0
/** Its provider has OAuth. */
let oauthId: number
/** How far the clock is off; a link made an hour ago has expired by now. */
let offsetMs = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const clock = { now: () => new Date(Date.now() + offsetMs) }
  const listing: ReconcilesWebhooks = {
    ...webhookProvider(),
    reconcileLookbackSeconds: 60,
    missedWebhooks: () => expect.unreachable('the workflow asks'),
  }
  const synced: HasBackfill = { ...syncProvider(() => {}), syncWindow: () => expect.unreachable('the workflow asks') }
  const shared = {
    providers: { acme: webhookProvider(), listing, synced, oauth: oauthScript().provider },
    encryptionKeys: encryptionKey('shared'),
    clock,
  }
  const tokens = { operator: { tokens: TOKENS } }
  places = {
    tokens: place(testIntegrations(database.url, { ...shared, baseUrl: BASE_URL, config: tokens })),
    dev: place(testIntegrations(database.url, { ...shared, dev: true })),
    none: place(testIntegrations(database.url, { ...shared, baseUrl: BASE_URL })),
  }
  id = (await makeIntegration(places.tokens.test, 'acme')).id
  otherId = (await makeIntegration(places.tokens.test, 'acme')).id
  listingId = (await makeIntegration(places.tokens.test, 'listing')).id
  webhookId = (await makeWebhook(places.tokens.test, id, { status: 'processed', attempts: 1 })).id
  syncedId = (await makeIntegration(places.tokens.test, 'synced')).id
  const run = await makeRun(places.tokens.test, syncedId, {}, { status: 'partial' })
  runId = run.id
  oauthId = (await makeIntegration(places.tokens.test, 'oauth')).id
  itemId = (await makeItem(places.tokens.test, run, { status: 'failed' })).id
  incidentId = (await makeIncident(places.tokens.test, id)).id
  const { tokens: made } = places.tokens.test.integrations.admin
  tokenId = (await made.create({ name: 'made', scope: 'read', by: 'test' })).id
})

afterAll(async () => {
  for (const { test } of Object.values(places)) await test.close()
  await database.drop()
})

function place(test: TestIntegrations): Place {
  const { integrations, framework } = test
  Object.assign(framework, { temporal: { ...framework.temporal, check: async () => {} } })
  const reconciled = {
    ...{ integrations: 1, seen: 0, known: 0, inserted: 0, tooLarge: 0, capped: 0, failed: 0, skipped: 0 },
    reasons: [],
  }
  Object.assign(framework.workflows, {
    runReconciliation: async () => reconciled,
    runTokenRefresh: async () => ({ checked: 1, refreshed: 1, failed: 0, reauthRequired: 0 }),
    // There is always a run to resume.
    resumeSync: async () => true,
  })
  const behind = (name: string): Hono => {
    const app = new Hono()
    for (const action of ['authorize', 'revoke']) {
      const path = `/integrations/:id/oauth/${action}`
      app.use(path, ...middlewareOf(integrations, [name]))
      app.all(path, (context) => context.text('let in'))
    }
    return app
  }
  const guarded = Object.fromEntries(['web', 'signed', 'same-origin', 'operator'].map((name) => [name, behind(name)]))
  return { test, api: createApi(integrations), guarded }
}

interface Call {
  readonly kind: Kind
  readonly headers: Record<string, string>
  readonly peer: string
  readonly csrfToken?: string
  /** Of the signed link. */
  readonly query?: string
}

const FOREIGN = 'https://evil.example'
const LOCAL = 'http://localhost:3000'

/** What each caller brings, made again for each call: a session may be signed out by it. */
async function bring(caller: string, method: string, name: string): Promise<Call> {
  const outside = { kind: 'tokens' as const, peer: '203.0.113.7' }
  const { integrations } = places.tokens.test
  const token = (text: string): Call => ({ ...outside, headers: { authorization: `Bearer ${text}` } })
  const session = async (text: string, origin: string, withCsrf: boolean): Promise<Call> => {
    const { cookie, csrfToken } = await signIn(integrations, text)
    return { ...outside, headers: { cookie, origin }, ...(withCsrf ? { csrfToken } : {}) }
  }
  const own = OAUTH_ROUTES.includes(name) ? oauthId : id
  const [action, otherAction] =
    method === 'POST' || name === 'revoke'
      ? (['revoke', 'authorize'] as const)
      : ([name === 'connect' ? 'connect' : 'authorize', 'revoke'] as const)
  const link = async (of: number, to: 'connect' | 'authorize' | 'revoke'): Promise<Call> => {
    const url = new URL(await integrations.oauth.link(of, { action: to, expiresIn: 60 }))
    return { ...outside, headers: { origin: BASE_URL }, query: url.search }
  }
  const here = { kind: 'dev' as const, peer: '127.0.0.1' }
  const dev = async (origin: string): Promise<Call> => {
    const { cookie, csrfToken } = await signIn(places.dev.test.integrations, devToken())
    const [, plain = ''] = cookie.split('=')
    return { ...here, headers: { host: 'localhost:3000', origin, cookie: `integrations_operator=${plain}` }, csrfToken }
  }
  switch (caller) {
    case 'nobody':
      return { ...outside, headers: {} }
    case 'read':
      return token(READ_TOKEN)
    case 'operate':
      return token(OPERATE_TOKEN)
    case 'wrong':
      return token(WRONG_TOKEN)
    case 's-read':
      return session(READ_TOKEN, BASE_URL, true)
    case 's-operate':
      return session(OPERATE_TOKEN, BASE_URL, true)
    case 's-no-csrf':
      return session(OPERATE_TOKEN, BASE_URL, false)
    case 's-foreign':
      return session(OPERATE_TOKEN, FOREIGN, true)
    case 'link':
      return link(own, action)
    case 'old':
      offsetMs = -3_600_000
      return link(own, action).finally(() => {
        offsetMs = 0
      })
    case 'id':
      return link(otherId, action)
    case 'action':
      return link(own, otherAction)
    case 'dev':
      return dev(LOCAL)
    case 'proxied':
      return { ...here, headers: { host: 'localhost:3000', origin: LOCAL } }
    case 'd-token':
      return { ...here, headers: { authorization: `Bearer ${devToken()}` } }
    case 'd-foreign':
      return dev(FOREIGN)
    case 'no-tokens':
      return { kind: 'none', peer: '127.0.0.1', headers: { host: 'localhost:3000' } }
    default:
      throw new Error(`no such caller: ${caller}`)
  }
}

const devToken = (): string => places.dev.test.integrations.admin.access.devToken ?? ''

const API = '/operator/api/v1'
/** Those that a signed link opens. */
const OAUTH_ROUTES = ['connect', 'authorize', 'revoke']

async function statusOf(route: string, caller: string): Promise<number> {
  const [method = '', name = ''] = route.split(' ')
  const { kind, headers, peer, csrfToken, query = '' } = await bring(caller, method, name)
  const { test, api, guarded } = places[kind]
  const target = method === 'DELETE' ? (await makeIntegration(test, 'acme')).id : id
  // Only who cancels meets a run: a cursor is not set beneath one.
  if (name === 'api/cancel') test.starts.running.add(syncedId)
  else test.starts.running.delete(syncedId)
  // Each caller meets one that has failed: a skip is for good.
  if (name === 'api/skip') await setItem(test, itemId, 'failed')
  const app = guarded[name] ?? api
  const form = (fields: Record<string, string>) => ({
    body: new URLSearchParams({ ...fields, ...(csrfToken === undefined ? {} : { csrf_token: csrfToken }) }).toString(),
    type: 'application/x-www-form-urlencoded',
  })
  const json = (value: unknown) => ({ body: JSON.stringify(value), type: 'application/json' })
  const routes: Record<string, { path: string; body?: string; type?: string }> = {
    webhook: { path: `/integrations/acme/${id}/webhook`, body: '{}' },
    healthz: { path: `${API}/healthz` },
    readyz: { path: `${API}/readyz` },
    login: { path: '/operator/login', ...form({ token: OPERATE_TOKEN }) },
    logout: { path: '/operator/logout', ...form({}) },
    page: { path: '/operator' },
    'page/enable': { path: `/operator/do/post/integrations/${id}/enable`, ...form({}) },
    'page/disable': { path: `/operator/do/post/integrations/${otherId}/disable`, ...form({}) },
    api: {
      path: `${API}/integrations`,
      ...(method === 'POST' ? json({ provider: 'acme', name: 'made', credentials: CREDENTIALS }) : {}),
    },
    'api/id': { path: `${API}/integrations/${target}`, ...(method === 'PATCH' ? json({ name: 'renamed' }) : {}) },
    'api/enable': { path: `${API}/integrations/${id}/enable` },
    'api/disable': { path: `${API}/integrations/${otherId}/disable` },
    'api/reconcile': { path: `${API}/integrations/${listingId}/reconcile` },
    'api/rotate': { path: `${API}/integrations/${otherId}/rotate-webhook-secret` },
    'api/oauth': { path: `${API}/integrations/${oauthId}/oauth` },
    'api/link': { path: `${API}/integrations/${oauthId}/oauth/link` },
    'api/revoke': { path: `${API}/integrations/${oauthId}/oauth/revoke` },
    'api/refresh': { path: `${API}/integrations/${oauthId}/oauth/refresh` },
    'api/webhooks': { path: `${API}/webhooks` },
    'api/webhook': { path: `${API}/webhooks/${webhookId}` },
    'api/replay': { path: `${API}/webhooks/replay`, ...json({ integration: otherId }) },
    'api/replay/id': { path: `${API}/webhooks/${webhookId}/replay` },
    'api/dismiss': { path: `${API}/webhooks/dismiss`, ...json({ integration: otherId }) },
    'api/ack': { path: `${API}/incidents/${incidentId}/acknowledge` },
    'api/snooze': {
      path: `${API}/incidents/${incidentId}/snooze`,
      ...json({ until: new Date(Date.now() + 86_400_000).toISOString() }),
    },
    // An incident holds 50 of them.
    'api/annotate': {
      path: `${API}/incidents/${(await makeIncident(test, id, { status: 'closed', closedAt: new Date() })).id}/annotations`,
      ...json({ text: 'down' }),
    },
    'api/audit': { path: `${API}/audit` },
    'api/tokens': {
      path: `${API}/tokens`,
      ...(method === 'POST' ? json({ name: `made-${++tokensMade}`, scope: 'read' }) : {}),
    },
    'api/token': { path: `${API}/tokens/${tokenId}` },
    'api/sync': { path: `${API}/integrations/${syncedId}/sync` },
    'api/pause': { path: `${API}/integrations/${syncedId}/pause` },
    'api/resume': { path: `${API}/integrations/${syncedId}/resume` },
    'api/cancel': { path: `${API}/integrations/${syncedId}/cancel` },
    'api/backfill': {
      path: `${API}/integrations/${syncedId}/backfill`,
      ...json({ from: '2021-06-01T12:00:00Z', to: '2021-06-02T12:00:00Z' }),
    },
    'api/sample': { path: `${API}/integrations/${syncedId}/sample` },
    'api/cursor': {
      path: `${API}/integrations/${syncedId}/cursor`,
      ...(method === 'PUT' ? json({ cursor: 'a' }) : {}),
    },
    'api/interval': {
      path: `${API}/integrations/${syncedId}/interval`,
      ...(method === 'PUT' ? json({ minutes: 5 }) : {}),
    },
    'api/sync-runs': { path: `${API}/sync-runs` },
    'api/sync-run': { path: `${API}/sync-runs/${runId}` },
    'api/finalise': { path: `${API}/sync-runs/${runId}/finalise` },
    'api/sync-items': { path: `${API}/sync-items` },
    'api/sync-item': { path: `${API}/sync-items/${itemId}` },
    'api/retry': { path: `${API}/sync-items/${itemId}/retry` },
    'api/skip': { path: `${API}/sync-items/${itemId}/skip` },
    'api/incidents': { path: `${API}/incidents` },
    'api/incident': { path: `${API}/incidents/${incidentId}` },
    'api/health': { path: `${API}/integrations/${id}/health` },
    'api/stats': { path: `${API}/stats` },
    incidents: { path: '/operator/incidents' },
    metrics: { path: '/metrics' },
    callback: { path: '/integrations/oauth/callback' },
    connected: { path: '/integrations' },
    'api/unknown': { path: `${API}/nothing` },
  }
  for (const each of OAUTH_ROUTES) routes[each] = { path: `/integrations/${oauthId}/oauth/${each}` }
  const oauth: (typeof routes)[string] = {
    path: `/integrations/${id}/oauth/${method === 'POST' ? 'revoke' : 'authorize'}`,
  }
  const { path, body, type } = routes[name] ?? oauth
  const response = await app.request(
    // A link's query means nothing to the other routes, and theirs is checked.
    `http://localhost:3000${path}${query}`,
    {
      method,
      headers: {
        ...(name === 'webhook' ? { 'x-signature': sign('{}'), 'x-delivery': 'one' } : {}),
        ...(type === undefined ? {} : { 'content-type': type }),
        ...(csrfToken === undefined ? {} : { 'x-csrf-token': csrfToken }),
        ...headers,
      },
      ...(body === undefined || method === 'GET' ? {} : { body }),
    },
    from(peer),
  )
  return response.status
}

async function setItem({ framework: { db, tables } }: TestIntegrations, item: number, status: 'failed'): Promise<void> {
  await db.update(tables.syncItems).set({ status }).where(eq(tables.syncItems.id, item))
}

it.each(ROWS)('%s', async (route, expected) => {
  const statuses: Record<string, number> = {}
  for (const caller of CALLERS) statuses[caller] = await statusOf(route, caller)
  expect(statuses).toEqual(Object.fromEntries(CALLERS.map((caller, index) => [caller, expected[index]])))
})
