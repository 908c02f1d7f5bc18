/** `npm run demo`: 329 real webhooks, a first sync and an incremental one; then what the database says about it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import type { Stack } from './stack.ts'
import { post, sendWebhooks } from './traffic.ts'

const WEBHOOKS = 329
const TOUCHED_ISSUES = 7
const ADDED_ISSUES = 3
const SETTLE_TIMEOUT_MS = 120_000
const POLL_MS = 100

export interface SyncSummary {
  readonly status: string
  readonly items: number
  readonly succeeded: number
  readonly cursor: string | null
  readonly seconds: number
}

export interface DemoSummary {
  readonly ok: boolean
  readonly webhooks: {
    readonly sent: number
    readonly accepted: number
    readonly processed: number
    readonly handlerRuns: number
    readonly seconds: number
  }
  readonly firstSync: SyncSummary
  readonly incrementalSync: SyncSummary
  readonly items: { readonly total: number; readonly success: number }
  /** Calls that the provider counted, and the rows that we have of them. */
  readonly requests: { readonly calls: number; readonly rows: number }
  readonly issues: { readonly atProvider: number; readonly stored: number }
  /** What does not hold; empty when all does. */
  readonly faults: readonly string[]
}

export async function runDemo(stack: Stack, say: (line: string) => void): Promise<DemoSummary> {
  const sql = postgres(stack.databaseUrl, { max: 2, fetch_types: false, onnotice: () => {} })
  try {
    await fetch(`${stack.sandboxUrl}/_sandbox/requests`, { method: 'DELETE' })
    say(`sending ${WEBHOOKS} webhooks`)
    const webhooks = await webhookPart(stack, sql)
    say('first sync: every issue')
    const firstSync = await syncPart(stack, sql)
    say(`${TOUCHED_ISSUES} issues change, ${ADDED_ISSUES} are new; incremental sync`)
    await post(`${stack.sandboxUrl}/_sandbox/issues/touch`, { count: TOUCHED_ISSUES })
    await post(`${stack.sandboxUrl}/_sandbox/issues`, { count: ADDED_ISSUES })
    const incrementalSync = await syncPart(stack, sql)
    return await summarise(stack, sql, { webhooks, firstSync, incrementalSync })
  } finally {
    await sql.end()
  }
}

async function webhookPart(stack: Stack, sql: Sql): Promise<DemoSummary['webhooks']> {
  const startedAt = performance.now()
  const { sent, accepted } = await sendWebhooks(stack, {})
  const processed = await until('all webhooks are settled', async () => {
    const [row] = await sql<{ open: number; processed: number }[]>`
      select count(*) filter (where status in ('pending', 'processing'))::int as open,
             count(*) filter (where status = 'processed')::int as processed
      from integration_webhooks`
    return row !== undefined && row.open === 0 ? row.processed : null
  })
  const [runs] = await sql<{ runs: number }[]>`select coalesce(sum(runs), 0)::int as runs from activity`
  return { sent, accepted, processed, handlerRuns: runs?.runs ?? 0, seconds: secondsSince(startedAt) }
}

async function syncPart(stack: Stack, sql: Sql): Promise<SyncSummary> {
  const startedAt = performance.now()
  const [last] = await sql<
    { id: number }[]
  >`select coalesce(max(id), 0)::int as id from integration_logs where operation = 'sync'`
  // Where the workflow of the run before is still telling its listeners, this one is remembered.
  await stack.integrations.syncs.start(stack.integrationId)
  const log = await until('the sync run is finished', async () => {
    const [row] = await sql<{ status: string; metadata: Record<string, unknown> }[]>`
      select status, metadata from integration_logs
      where operation = 'sync' and id > ${last?.id ?? 0} and status <> 'processing' order by id limit 1`
    return row ?? null
  })
  const { metadata } = log
  return {
    status: log.status,
    items: Number(metadata.listed ?? 0),
    succeeded: Number(metadata.success_count ?? 0),
    cursor: metadata.cursor_after === undefined ? null : String(metadata.cursor_after),
    seconds: secondsSince(startedAt),
  }
}

async function summarise(
  stack: Stack,
  sql: Sql,
  parts: Pick<DemoSummary, 'webhooks' | 'firstSync' | 'incrementalSync'>,
): Promise<DemoSummary> {
  const provider = await providerState(stack)
  const [counts] = await sql<{ total: number; success: number; rows: number; issues: number; cursor: unknown }[]>`
    select (select count(*)::int from integration_sync_items) as total,
           (select count(*)::int from integration_sync_items where status = 'success') as success,
           (select count(*)::int from integration_requests) as rows,
           (select count(*)::int from issues) as issues,
           (select sync_cursor from integrations where id = ${stack.integrationId}) as cursor`
  if (counts === undefined) throw new Error('the database gave no counts')
  const cursor = parts.incrementalSync.cursor
  const faults = [
    expect('webhooks accepted', parts.webhooks.accepted, WEBHOOKS),
    expect('webhooks processed', parts.webhooks.processed, WEBHOOKS),
    expect('handler runs', parts.webhooks.handlerRuns, WEBHOOKS),
    expect('status of the first sync', parts.firstSync.status, 'success'),
    expect('items of the first sync', parts.firstSync.items, provider.issues - ADDED_ISSUES),
    expect('status of the incremental sync', parts.incrementalSync.status, 'success'),
    expect('items that succeeded', counts.success, counts.total),
    expect('rows of outbound calls', counts.rows, provider.calls),
    expect('issues stored by the host', counts.issues, provider.issues),
  ].filter((fault) => fault !== null)
  // It stays below what changed while the listing went on: docs/behaviour/sync-cursor.md, "The beginning of the listing".
  if (cursor === null || cursor > provider.newestUpdate || cursor <= String(parts.firstSync.cursor))
    faults.push(`the cursor is ${cursor}, which is not between ${parts.firstSync.cursor} and ${provider.newestUpdate}`)
  if (parts.incrementalSync.items < TOUCHED_ISSUES + ADDED_ISSUES)
    faults.push(`the incremental sync listed ${parts.incrementalSync.items} items, fewer than changed`)
  return {
    ok: faults.length === 0,
    ...parts,
    items: { total: counts.total, success: counts.success },
    requests: { calls: provider.calls, rows: counts.rows },
    issues: { atProvider: provider.issues, stored: counts.issues },
    faults,
  }
}

/** What the provider itself says: its own log of requests and its own list of issues. */
async function providerState(stack: Stack): Promise<{ calls: number; issues: number; newestUpdate: string }> {
  const log = (await (await fetch(`${stack.sandboxUrl}/_sandbox/requests`)).json()) as
    | { requests: unknown[] }
    | unknown[]
  const calls = (Array.isArray(log) ? log : log.requests).length
  const { token } = (await stack.integrations.get(stack.integrationId)).credentialsArray()
  const { owner, repo } = (await stack.integrations.get(stack.integrationId)).metadata
  const found: { updated_at: string; pull_request?: unknown }[] = []
  for (let page = 1; ; page += 1) {
    const url = `${stack.sandboxUrl}/repos/${owner}/${repo}/issues?state=all&per_page=100&page=${page}`
    const entries = (await (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).json()) as typeof found
    found.push(...entries.filter((entry) => entry.pull_request === undefined))
    if (entries.length < 100) break
  }
  return {
    calls,
    issues: found.length,
    newestUpdate:
      found
        .map((issue) => issue.updated_at)
        .sort()
        .at(-1) ?? '',
  }
}

export function summaryTable(summary: DemoSummary): string {
  const rows: [string, string][] = [
    ['webhooks sent, accepted', `${summary.webhooks.sent}, ${summary.webhooks.accepted}`],
    ['webhooks processed', `${summary.webhooks.processed} in ${summary.webhooks.seconds} s`],
    ['handler runs', String(summary.webhooks.handlerRuns)],
    [
      'first sync',
      `${summary.firstSync.status}, ${summary.firstSync.succeeded} of ${summary.firstSync.items} items, ${summary.firstSync.seconds} s`,
    ],
    [
      'incremental sync',
      `${summary.incrementalSync.status}, ${summary.incrementalSync.succeeded} of ${summary.incrementalSync.items} items, ${summary.incrementalSync.seconds} s`,
    ],
    ['cursor', String(summary.incrementalSync.cursor)],
    ['outbound calls, their rows', `${summary.requests.calls}, ${summary.requests.rows}`],
    ["issues at the provider, in the host's table", `${summary.issues.atProvider}, ${summary.issues.stored}`],
    ['faults', summary.faults.length === 0 ? 'none' : summary.faults.join('; ')],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`).join('\n')
}

function expect(what: string, found: unknown, wanted: unknown): string | null {
  return found === wanted ? null : `${what}: expected ${String(wanted)}, found ${String(found)}`
}

async function until<T>(what: string, look: () => Promise<T | null>): Promise<T> {
  for (const deadline = performance.now() + SETTLE_TIMEOUT_MS; performance.now() < deadline; await sleep(POLL_MS)) {
    const found = await look()
    if (found !== null) return found
  }
  throw new Error(`Within ${SETTLE_TIMEOUT_MS / 1_000} s it did not come to pass that ${what}.`)
}

function secondsSince(startedAt: number): number {
  return Math.round((performance.now() - startedAt) / 100) / 10
}
