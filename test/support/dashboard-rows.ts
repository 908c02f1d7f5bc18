/** A database as an operator meets it on a bad morning: for the pictures of the dashboard, and for the tests that look at all of it. */
import { sql } from 'drizzle-orm'
import type { TestIntegrations } from './integrations.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from './rows.ts'

/** Shown as text wherever it comes to stand. The attribute and the name on `window` show where it was not. */
const MARKUP = '"><img src=x data-xss onerror="window.wasRun=1"><script>window.wasRun=1</script>\'{{7*7}}'
/** Stands in every field that may hold a secret, and on no page. */
export const CANARY = 'canary-9d2c-of-the-credentials'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const EVENTS = ['issues', 'pull_request', 'push', 'issue_comment', 'check_run']
const ENDPOINTS = ['/repos/acme/widgets/issues', '/repos/acme/widgets/issues/17', '/rate_limit', '/user']
/** In a day, about; each is a row. */
const CALLS = 1_500
/** As random as a picture needs, and the same each time. */
const shareOf = (n: number): number => (Math.abs(Math.sin((n + 1) * 12.9898)) * 43_758.5453) % 1
const TIMEOUT = 'Error: connect ETIMEDOUT 203.0.113.7:443'
const NOT_FOUND = 'DeskTicketNotFound: no ticket for issue 4711'

export interface DashboardRows {
  readonly healthy: number
  readonly failing: number
  readonly off: number
  readonly webhook: number
  readonly run: number
  readonly item: number
  readonly waitingItem: number
  readonly request: number
  readonly incident: number
  readonly event: number
  readonly log: number
  readonly mapping: number
  readonly key: number
}

/** @param options `now`: the moment at which it is looked at; `isHostile`: with what strangers write into names, payloads and errors */
export async function fillDashboard(
  test: TestIntegrations,
  { now = new Date(), isHostile = true }: { readonly now?: Date; readonly isHostile?: boolean } = {},
): Promise<DashboardRows> {
  const HOSTILE = isHostile ? MARKUP : 'Acme archive'
  const { db, tables } = test.framework
  const ago = (ms: number): Date => new Date(now.getTime() - ms)
  const github = (name: string, repo: string) =>
    makeIntegration(test, 'github', {
      name,
      credentials: { token: CANARY, webhook_secret: CANARY },
      metadata: { owner: 'acme', repo },
      owner: { type: 'team', id: 7 },
      syncIntervalMinutes: 15,
    })
  const healthy = await github('Acme widgets', 'widgets')
  const failing = await github('Acme website', 'website')
  const off = await github('Acme handbook', 'handbook')
  const payments = await makeIntegration(test, 'stripe', {
    name: 'Acme payments',
    credentials: { api_key: `sk_test_${CANARY}`, webhook_secret: `whsec_${CANARY}` },
  })
  const hostile = await makeIntegration(test, 'stripe', {
    name: HOSTILE,
    credentials: { api_key: `sk_test_${CANARY}`, webhook_secret: `whsec_${CANARY}` },
    metadata: { note: HOSTILE },
  })
  await setIntegration(test, healthy.id, {
    lastSyncedAt: ago(4 * MINUTE),
    nextSyncAt: new Date(now.getTime() + 11 * MINUTE),
    syncCursor: '2026-06-01T08:30:00Z',
  })
  await setIntegration(test, failing.id, {
    healthStatus: 'failing',
    consecutiveFailures: 14,
    lastErrorAt: ago(2 * MINUTE),
    lastSyncedAt: ago(9 * HOUR),
    nextSyncAt: new Date(now.getTime() + 26 * MINUTE),
    consecutiveSyncFailures: 3,
    syncStaleAlertedAt: ago(5 * HOUR),
  })
  await setIntegration(test, off.id, { isActive: false, switchedOffAt: ago(30 * HOUR) })

  let webhook = 0
  for (let n = 0; n < 90; n += 1) {
    const isFailed = n % 9 === 0
    const at = ago(n * 16 * MINUTE)
    const integrationId = [healthy.id, failing.id, payments.id][n % 3] ?? healthy.id
    const row = await makeWebhook(test, integrationId, {
      deliveryId: `d7a1e9${n.toString().padStart(4, '0')}`,
      eventType: EVENTS[n % EVENTS.length] ?? null,
      payload: JSON.stringify({
        action: 'opened',
        issue: { number: 17 + n, id: 9_007_199_254_740_991, title: 'The widget does not turn', labels: ['bug'] },
        repository: { full_name: 'acme/widgets' },
      }),
      headers: {
        'content-type': ['application/json'],
        'x-github-event': [EVENTS[n % EVENTS.length] ?? ''],
        'x-hub-signature-256': ['[REDACTED]'],
      },
      status: n === 1 ? 'pending' : isFailed ? 'failed' : 'processed',
      attempts: n === 1 ? 0 : isFailed ? 3 : 1,
      error: isFailed ? (n % 18 === 0 ? TIMEOUT : NOT_FOUND) : null,
      processedAt: n === 1 ? null : at,
      createdAt: at,
      updatedAt: at,
    })
    if (isFailed && webhook === 0) webhook = row.id
  }
  await makeWebhook(test, hostile.id, {
    eventType: HOSTILE,
    deliveryId: HOSTILE.slice(0, 60),
    payload: JSON.stringify({ [HOSTILE]: HOSTILE, secret: CANARY }),
    headers: { [HOSTILE.toLowerCase()]: [HOSTILE], 'x-token': [CANARY] },
    status: 'failed',
    attempts: 3,
    error: `${HOSTILE}`,
    processedAt: now,
  })

  const requests: (typeof tables.requests.$inferInsert)[] = []
  for (let n = 0; n < CALLS; n += 1) {
    const ageMs = shareOf(n) * 24 * HOUR
    // More by day than by night, and from three hours ago on a provider that is in trouble.
    if (shareOf(n + CALLS) > 0.4 + 0.6 * Math.sin((ageMs / (24 * HOUR)) * Math.PI) ** 2) continue
    const isBad = shareOf(n + 2 * CALLS) < (ageMs < 3 * HOUR ? 0.4 : 0.02)
    const isThrottled = n % 3 === 0
    const at = ago(ageMs)
    requests.push({
      integrationId: isBad ? failing.id : ([failing.id, healthy.id, payments.id][n % 3] ?? healthy.id),
      endpoint: ENDPOINTS[n % ENDPOINTS.length] ?? '',
      method: n % 5 === 0 ? 'POST' : 'GET',
      statusCode: isBad ? (isThrottled ? 429 : 502) : 200,
      error: isBad ? (isThrottled ? 'HTTP 429: secondary rate limit' : 'HTTP 502: Bad Gateway') : null,
      failureClass: isBad ? (isThrottled ? 'throttle' : 'upstream') : null,
      durationMs: Math.round(40 + 160 * shareOf(n + 3 * CALLS) ** 2 + (isBad ? 900 : 0)),
      requestData: n % 5 === 0 ? JSON.stringify({ title: 'The widget does not turn' }) : null,
      responseData: JSON.stringify({ id: 17 + n, state: 'open' }),
      createdAt: at,
      updatedAt: at,
    })
  }
  requests.push({
    integrationId: hostile.id,
    endpoint: HOSTILE.slice(0, 200),
    method: 'GET',
    statusCode: 500,
    error: HOSTILE,
    failureClass: 'upstream',
    requestData: HOSTILE,
    responseData: HOSTILE,
  })
  const request = await newestOf(db.insert(tables.requests).values(requests).returning({ id: tables.requests.id }))

  const runs: { readonly id: number; readonly integrationId: number }[] = []
  for (let n = 0; n < 14; n += 1) {
    const isOfFailing = n % 2 === 1
    const at = ago(n * 45 * MINUTE)
    const run = await makeRun(
      test,
      isOfFailing ? failing.id : healthy.id,
      {
        incremental: true,
        cursor_before: '2026-06-01T08:15:00Z',
        cursor_after: isOfFailing ? null : '2026-06-01T08:30:00Z',
        listed: 25,
        success_count: isOfFailing ? 22 : 25,
        failure_count: isOfFailing ? 3 : 0,
      },
      {
        status: n === 0 ? 'processing' : isOfFailing ? 'partial' : 'success',
        durationMs: n === 0 ? null : 4_200,
        createdAt: at,
        updatedAt: at,
      },
    )
    runs.push(run)
  }
  const [living, partial] = runs
  if (living === undefined || partial === undefined) throw new Error('expected runs')
  for (let n = 0; n < 12; n += 1)
    await makeItem(test, living, {
      eventClass: 'github.issue',
      externalId: `acme/widgets#${n}`,
      status: n < 8 ? 'success' : 'pending',
      attempts: n < 8 ? 1 : 0,
      completedAt: n < 8 ? now : null,
    })
  const failedItem = await makeItem(test, partial, {
    eventClass: 'github.issue',
    externalId: 'acme/website#4711',
    status: 'failed',
    attempts: 5,
    error: NOT_FOUND,
    completedAt: ago(40 * MINUTE),
    checkpointValue: '2026-06-01T08:20:00Z',
    payload: { v: 1, data: { number: 4711, title: HOSTILE, token: CANARY } },
  })
  const waiting = await makeItem(test, partial, {
    eventClass: 'github.issue',
    externalId: 'acme/website#4712',
    attempts: 2,
    lastError: TIMEOUT,
    nextAttemptAt: new Date(now.getTime() + 3 * MINUTE),
  })
  await makeItem(test, partial, {
    eventClass: 'github.issue',
    externalId: HOSTILE.slice(0, 120),
    status: 'failed',
    attempts: 5,
    error: HOSTILE,
    completedAt: ago(40 * MINUTE),
  })

  const incident = await makeIncident(test, failing.id, {
    reason: 'health_failing',
    peakSeverity: 'failing',
    openedAt: ago(3 * HOUR),
    lastErrorAt: ago(2 * MINUTE),
    followedAt: now,
    annotations: [{ at: ago(2 * HOUR).toISOString(), by: HOSTILE.slice(0, 50), text: HOSTILE }],
  })
  await makeIncident(test, healthy.id, {
    status: 'closed',
    source: 'circuit',
    reason: 'threshold_reached',
    openedAt: ago(20 * HOUR),
    closedAt: ago(19 * HOUR),
  })
  const mapping = await newestOf(
    db
      .insert(tables.mappings)
      .values([
        { integrationId: healthy.id, externalId: 'acme/widgets#17', internalType: 'issue', internalId: '17' },
        { integrationId: hostile.id, externalId: HOSTILE, internalType: 'issue', internalId: HOSTILE.slice(0, 100) },
      ])
      .returning({ id: tables.mappings.id }),
  )
  const key = await newestOf(
    db
      .insert(tables.idempotencyKeys)
      .values([
        { integrationId: payments.id, key: 'refund-4711' },
        { integrationId: hostile.id, key: HOSTILE.slice(0, 150) },
      ])
      .returning({ id: tables.idempotencyKeys.id }),
  )
  const event = await newestOf(
    db
      .insert(tables.events)
      .values([
        { integrationId: failing.id, name: 'IncidentOpened', payload: { reason: 'health_failing' }, deliveredAt: now },
        { integrationId: hostile.id, name: 'SyncCompleted', payload: { text: HOSTILE }, attempts: 4 },
      ])
      .returning({ id: tables.events.id }),
  )
  const log = await newestOf(
    db
      .insert(tables.logs)
      .values([
        {
          integrationId: hostile.id,
          operation: 'import',
          direction: 'inbound',
          status: 'failed',
          summary: HOSTILE,
          error: HOSTILE,
          metadata: { [HOSTILE]: HOSTILE },
        },
      ])
      .returning({ id: tables.logs.id }),
  )
  await test.integrations.admin.tokens.create({ name: 'grafana', scope: 'read', by: 'ada', from: '203.0.113.7' })
  await test.integrations.admin.tokens.create({
    name: HOSTILE.slice(0, 60).replaceAll(':', ''),
    scope: 'read',
    by: 'ada',
  })
  await test.integrations.admin.operator.note(healthy.id, {
    token: 'ada',
    action: 'sync',
    target: `integration:${healthy.id}`,
  })
  await test.integrations.admin.operator.note(null, { token: HOSTILE, action: HOSTILE, target: HOSTILE, from: HOSTILE })
  // As a worker would, once a minute.
  await test.integrations.admin.charts.rollUp()
  await db.execute(sql`analyze`)
  return {
    healthy: healthy.id,
    failing: failing.id,
    off: off.id,
    webhook,
    run: partial.id,
    item: failedItem.id,
    waitingItem: waiting.id,
    request,
    incident: incident.id,
    event,
    log,
    mapping,
    key,
  }
}

/** Of what strangers have written into, which are inserted last. */
async function newestOf(inserted: PromiseLike<readonly { readonly id: number }[]>): Promise<number> {
  const row = (await inserted).at(-1)
  if (row === undefined) throw new Error('expected the rows to be written')
  return row.id
}
