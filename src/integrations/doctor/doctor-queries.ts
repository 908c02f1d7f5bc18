/**
 * What the doctor counts. Statements look only; ages are by the database's clock, and each goes by an index, since the doctor
 * also comes to large tables.
 */

import type { SQL } from 'drizzle-orm'
import { and, asc, eq, gt, inArray, isNotNull, isNull, lt, min, sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { IntegrationRow, Tables } from '../../db/schema/tables.ts'
import { acceptsWebhooks } from '../queries.ts'

const secondsAgo = (seconds: number): SQL =>
  sql`clock_timestamp() - make_interval(secs => ${seconds}::double precision)`

export async function databaseClock(db: Database): Promise<{ now: Date; version: string }> {
  const [row] = await db.execute<{ now: string | Date; version: string }>(
    sql`select clock_timestamp() as now, current_setting('server_version') as version`,
  )
  return { now: new Date(row?.now ?? Number.NaN), version: row?.version ?? 'unknown' }
}

export interface ProviderUse {
  readonly provider: string
  readonly integrations: number
  readonly firstId: number
}

export async function providersInUse(db: Database, { integrations }: Tables): Promise<ProviderUse[]> {
  return db
    .select({
      provider: integrations.provider,
      integrations: sql<number>`count(*)::int`,
      firstId: sql<number>`min(${integrations.id})`.mapWith(Number),
    })
    .from(integrations)
    .groupBy(integrations.provider)
    .orderBy(asc(integrations.provider))
}

/** One page by ascending id. */
export async function pageOfCredentials(
  db: Database,
  { integrations }: Tables,
  afterId: number,
  limit: number,
): Promise<{ id: number; provider: string; credentials: string }[]> {
  return db
    .select({ id: integrations.id, provider: integrations.provider, credentials: integrations.credentials })
    .from(integrations)
    .where(gt(integrations.id, afterId))
    .orderBy(asc(integrations.id))
    .limit(limit)
}

/** One page by ascending id. */
export async function pageOfCircuits(
  db: Database,
  { integrations }: Tables,
  afterId: number,
  limit: number,
): Promise<Pick<IntegrationRow, 'id' | 'provider' | 'circuitOverride' | 'circuitOverrideUntil'>[]> {
  const { id, provider, circuitOverride, circuitOverrideUntil } = integrations
  return db
    .select({ id, provider, circuitOverride, circuitOverrideUntil })
    .from(integrations)
    .where(gt(id, afterId))
    .orderBy(asc(id))
    .limit(limit)
}

export interface WebhookGroup {
  readonly integrationId: number
  readonly webhooks: number
  /** When the row that has been so for the longest time was last changed. */
  readonly since: Date
}

/** Webhooks that have been in a status for longer than so many seconds, by integration, the oldest first. */
export async function lingeringWebhooks(
  db: Database,
  { webhooks, integrations }: Tables,
  { status, seconds, limit }: { status: 'pending' | 'processing'; seconds: number; limit: number },
): Promise<WebhookGroup[]> {
  const since = min(webhooks.updatedAt)
  const rows = await db
    .select({ integrationId: webhooks.integrationId, webhooks: sql<number>`count(*)::int`, since })
    .from(webhooks)
    .innerJoin(integrations, eq(integrations.id, webhooks.integrationId))
    .where(
      and(
        eq(webhooks.status, status),
        lt(webhooks.updatedAt, secondsAgo(seconds)),
        // What waits for an integration that is switched off waits on purpose: enabling it wakes the inbox. Recovery, too, leaves
        // what belongs to one that its health disabled.
        sql`${integrations.healthStatus} <> 'disabled'`,
        status === 'pending' ? sql`${integrations.isActive}` : undefined,
      ),
    )
    .groupBy(webhooks.integrationId)
    .orderBy(since)
    .limit(limit)
  return rows as WebhookGroup[]
}

/** Webhooks that failed within the last `seconds` and are not dismissed, by integration, the most first. */
export async function lateFailedWebhooks(
  db: Database,
  { webhooks }: Tables,
  { seconds, limit }: { seconds: number; limit: number },
): Promise<WebhookGroup[]> {
  const count = sql<number>`count(*)::int`
  const rows = await db
    .select({ integrationId: webhooks.integrationId, webhooks: count, since: min(webhooks.updatedAt) })
    .from(webhooks)
    .where(
      and(eq(webhooks.status, 'failed'), isNull(webhooks.dismissedAt), gt(webhooks.updatedAt, secondsAgo(seconds))),
    )
    .groupBy(webhooks.integrationId)
    .orderBy(sql`${count} desc`)
    .limit(limit)
  return rows as WebhookGroup[]
}

export interface OpenRun {
  readonly logId: number
  readonly integrationId: number
  readonly isActive: boolean
  readonly startedAt: Date
}

/**
 * Run logs that say `processing` and are older than so many seconds, among the last `depth` logs of each integration's runs:
 * the index leads to those, and the table may hold a year's.
 */
export async function openRuns(
  db: Database,
  { logs, integrations }: Tables,
  { seconds, depth, limit }: { seconds: number; depth: number; limit: number },
): Promise<OpenRun[]> {
  const lately = db
    .select()
    .from(logs)
    .where(and(sql`${logs.integrationId} = ${integrations.id}`, eq(logs.operation, 'sync')))
    .orderBy(sql`${logs.id} desc`)
    .limit(depth)
    .as('lately')
  return db
    .select({
      logId: lately.id,
      integrationId: integrations.id,
      isActive: integrations.isActive,
      startedAt: lately.createdAt,
    })
    .from(integrations)
    .crossJoinLateral(lately)
    .where(and(eq(lately.status, 'processing'), lt(lately.createdAt, secondsAgo(seconds))))
    .orderBy(asc(lately.id))
    .limit(limit)
}

/** Which of these run logs still say `processing`. */
export async function stillOpen(db: Database, { logs }: Tables, ids: readonly number[]): Promise<Set<number>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .select({ id: logs.id })
    .from(logs)
    .where(and(inArray(logs.id, [...ids]), eq(logs.status, 'processing')))
  return new Set(rows.map((row) => row.id))
}

/** Active integrations that are marked as stale, the longest first. */
export async function staleIntegrations(
  db: Database,
  { integrations }: Tables,
  limit: number,
): Promise<{ id: number; lastSyncedAt: Date | null; since: Date }[]> {
  const { id, lastSyncedAt, syncStaleAlertedAt } = integrations
  const rows = await db
    .select({ id, lastSyncedAt, since: syncStaleAlertedAt })
    .from(integrations)
    .where(and(eq(integrations.isActive, true), isNotNull(syncStaleAlertedAt)))
    .orderBy(asc(syncStaleAlertedAt), asc(id))
    .limit(limit)
  return rows.flatMap((row) => (row.since === null ? [] : [{ ...row, since: row.since }]))
}

export interface FailedItems {
  readonly integrationId: number
  readonly items: number
  /** Those without an external id: no later run can make up for them. */
  readonly nameless: number
  readonly since: Date
}

/** Failed items that nothing later has made up for, by integration: they hold its cursor. Those of backfills hold nothing. */
export async function unresolvedItems(
  db: Database,
  { syncItems, integrations, logs }: Tables,
  limit: number,
): Promise<FailedItems[]> {
  const rows = await db.execute<{ id: string; items: number; nameless: number; since: string | Date }>(sql`
    select i.id, held.items, held.nameless, held.since
    from ${integrations} i
    cross join lateral (
      select count(*)::int as items, count(*) filter (where f.external_id is null)::int as nameless,
             min(f.created_at) as since
      from ${syncItems} f
      where f.integration_id = i.id and f.status = 'failed'
        and not exists (select 1 from ${logs} l where l.id = f.sync_log_id and l.operation = 'backfill')
        and not exists (
          select 1 from ${syncItems} later
          where later.integration_id = f.integration_id and later.external_id = f.external_id
            and later.event_class = f.event_class and later.id > f.id and later.status in ('success', 'skipped')
        )
    ) held
    where held.items > 0
    order by held.since limit ${limit}`)
  return rows.map((row) => ({
    integrationId: Number(row.id),
    items: row.items,
    nameless: row.nameless,
    since: new Date(row.since),
  }))
}

export interface DisabledIntegration {
  readonly id: number
  readonly failures: number
  readonly lastErrorAt: Date | null
  readonly pendingWebhooks: number
}

/** Switched off by their health, and not by a person: what a person switched off is meant to be off. */
export async function disabledIntegrations(
  db: Database,
  { integrations, webhooks }: Tables,
  limit: number,
): Promise<DisabledIntegration[]> {
  return db
    .select({
      id: integrations.id,
      failures: integrations.consecutiveFailures,
      lastErrorAt: integrations.lastErrorAt,
      // The table is named by hand: Drizzle leaves it out of a column here, and the inner query has an `id` of its own.
      pendingWebhooks: sql<number>`(
        select count(*)::int from ${webhooks} w where w.integration_id = ${integrations}.id and w.status = 'pending')`,
    })
    .from(integrations)
    .where(and(eq(integrations.healthStatus, 'disabled'), isNull(integrations.switchedOffAt)))
    .orderBy(asc(integrations.id))
    .limit(limit)
}

/** One page by ascending id: those of these providers that no person has switched off. */
export async function pageOfAuthorized(
  db: Database,
  tables: Tables,
  providers: readonly string[],
  afterId: number,
  limit: number,
): Promise<{ id: number }[]> {
  const { integrations } = tables
  const { id, provider } = integrations
  return db
    .select({ id })
    .from(integrations)
    .where(and(inArray(provider, [...providers]), acceptsWebhooks(tables), gt(id, afterId)))
    .orderBy(asc(id))
    .limit(limit)
}

export interface OutboxBacklog {
  readonly events: number
  /** When the one that has waited longest was due, or was last taken up. */
  readonly since: Date | null
}

/** Events that have been due for so many seconds without anybody having taken them up, or whose claim is older than it may get. */
export async function lateEvents(
  db: Database,
  { events }: Tables,
  { seconds, claimSeconds }: { seconds: number; claimSeconds: number },
): Promise<OutboxBacklog> {
  const [row] = await db.execute<{ events: number; since: string | Date | null }>(sql`
    select count(*)::int as events, min(late.since) as since
    from (
      select due_at as since from ${events}
      where delivered_at is null and claim is null and due_at < ${secondsAgo(seconds)}
      union all
      select updated_at from ${events}
      where delivered_at is null and claim is not null and updated_at < ${secondsAgo(claimSeconds)}
    ) late`)
  return { events: row?.events ?? 0, since: row?.since == null ? null : new Date(row.since) }
}

export interface UnseenIncident {
  readonly id: number
  readonly integrationId: number
  readonly status: 'open' | 'closed'
  readonly openedAt: Date
  /** The change that its workflow has not seen, or when it last looked. */
  readonly since: Date
}

/** Incidents whose last change nobody has seen for so many seconds, and open ones that nobody has looked at for so many. */
export async function unseenIncidents(
  db: Database,
  { incidents }: Tables,
  { changedSeconds, lookedSeconds, limit }: { changedSeconds: number; lookedSeconds: number; limit: number },
): Promise<UnseenIncident[]> {
  const rows = await db.execute<{
    id: string
    integration_id: string
    status: 'open' | 'closed'
    opened_at: string | Date
    since: string | Date
  }>(sql`
    select id, integration_id, status, opened_at, updated_at as since from ${incidents}
    where (followed_at is null or followed_at < updated_at) and updated_at < ${secondsAgo(changedSeconds)}
    union all
    select id, integration_id, status, opened_at, followed_at as since from ${incidents}
    where status = 'open' and followed_at >= updated_at and followed_at < ${secondsAgo(lookedSeconds)}
    order by since, id limit ${limit}`)
  return rows.map((row) => ({
    id: Number(row.id),
    integrationId: Number(row.integration_id),
    status: row.status,
    openedAt: new Date(row.opened_at),
    since: new Date(row.since),
  }))
}
