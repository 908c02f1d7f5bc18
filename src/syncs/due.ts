/**
 * Which integrations are due.
 *
 * test/activities/sync-dispatch.pg.test.ts compares the statements with a model of the rule.
 * Rule: docs/behaviour/sync-scheduling.md, "Due" and "Waiting for health".
 */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, gt, inArray, isNotNull, isNull, or, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { clockNow, intervalOf, jsonText, MAX_INTEGER } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { hasScheduledSync, hasStreams } from '../providers/contracts.ts'
import { LEAST_SECONDS } from './stream-rules.ts'

/** Intervals that an unhealthy integration waits after its last run. */
export interface HealthBackoff {
  readonly degraded: number
  readonly failing: number
}

export interface DueRule {
  /** Providers that can sync, each with the minutes of its default interval; null: it has none. */
  readonly intervals: ReadonlyMap<string, number | null>
  readonly backoff: HealthBackoff
}

/** A stream as a provider declares it, for a statement. */
export interface DeclaredStream {
  readonly provider: string
  readonly stream: string
  /** Null: it runs only by hand. Of an adaptive interval the longest. */
  readonly seconds: number | null
  /** Null: its interval is not adaptive. */
  readonly least: number | null
  /** Null: it waits for no other stream. */
  readonly after: string | null
  /** Null: the configuration says. */
  readonly staleSeconds: number | null
}

export interface DueIntegration {
  readonly id: number
  readonly provider: string
  /** Null: the integration's own. */
  readonly stream: string | null
  /** Null: no run of it was ever planned. */
  readonly nextSyncAt: Date | null
}

export function dueRule(framework: Framework): DueRule {
  const { degraded_backoff: degraded, failing_backoff: failing } = framework.config.health
  return { intervals: defaultIntervals(framework), backoff: { degraded, failing } }
}

/**
 * Default minutes of the providers that can sync, by their identifier. Null: its integrations run only by hand, also where the
 * provider fails to say.
 */
export function defaultIntervals(
  framework: Pick<Framework, 'providers' | 'logger'>,
): ReadonlyMap<string, number | null> {
  return new Map([...declaredIntervals(framework)].map(([key, minutes]) => [key, minutes ?? null]))
}

/** The same. Undefined: the provider fails to say, so nothing follows from it. */
export function declaredIntervals({
  providers,
  logger,
}: Pick<Framework, 'providers' | 'logger'>): ReadonlyMap<string, number | null | undefined> {
  const intervals = new Map<string, number | null | undefined>()
  for (const [key, provider] of providers.entries()) {
    if (!hasScheduledSync(provider)) continue
    try {
      intervals.set(key, checked(provider.defaultSyncInterval?.() ?? null))
    } catch (error) {
      // One provider's mistake must not stop the integrations of others, nor those with an interval of their own.
      intervals.set(key, undefined)
      logger.error(
        { event: 'sync.interval_unusable', provider: key, error: errorLine(error, 300) },
        'the default interval of a provider can not be used; its integrations run by hand, or by an interval of their own',
      )
    }
  }
  return intervals
}

/** All streams of all providers. */
export function declaredStreams({ providers }: Pick<Framework, 'providers'>): DeclaredStream[] {
  return providers.entries().flatMap(([provider, declared]) =>
    hasStreams(declared)
      ? Object.entries(declared.streams).map(([stream, { everySeconds = null, after, staleAfterSeconds }]) => ({
          provider,
          stream,
          ...(typeof everySeconds === 'object' && everySeconds !== null
            ? { seconds: everySeconds.most, least: everySeconds.least }
            : { seconds: everySeconds, least: null }),
          after: after ?? null,
          staleSeconds: staleAfterSeconds ?? null,
        }))
      : [],
  )
}

/** The streams as rows of a statement. */
export function streamRows(streams: readonly DeclaredStream[]): SQL {
  return sql`jsonb_to_recordset(${jsonText(streams)}::jsonb)
    as d (provider text, stream text, seconds double precision, least double precision, after text, "staleSeconds" double precision)`
}

/** Gives each stream of each active integration its row: one without a row is due. */
export async function ensureStreams(
  db: Database,
  { integrations, streams }: Tables,
  declared: readonly DeclaredStream[],
): Promise<void> {
  if (declared.length === 0) return
  await db.execute(sql`
    insert into ${streams} (integration_id, stream)
    select i.id, d.stream from ${integrations} i join ${streamRows(declared)} on d.provider = i.provider
    where i.is_active
      and not exists (select 1 from ${streams} s where s.integration_id = i.id and s.stream = d.stream)
    on conflict do nothing`)
}

/** The same as {@link dueIntegrations} of named streams: those that wait for another one's first run are left out. */
export async function dueStreams(
  db: Database,
  { integrations, streams }: Tables,
  { declared, backoff }: { readonly declared: readonly DeclaredStream[]; readonly backoff: HealthBackoff },
  limit: number,
  after: DueIntegration | null = null,
): Promise<DueIntegration[]> {
  if (declared.length === 0) return []
  const at = sql`coalesce(s.next_sync_at, '-infinity')`
  const from = after?.nextSyncAt?.toISOString() ?? '-infinity'
  const rows = await db.execute<{ id: string; provider: string; stream: string; next: number | null }>(sql`
    select i.id, i.provider, s.stream, extract(epoch from s.next_sync_at)::float8 * 1000 as next
    from ${streams} s join ${integrations} i on i.id = s.integration_id
    join ${streamRows(declared)} on d.provider = i.provider and d.stream = s.stream
    where i.is_active and i.health_status <> 'disabled' and ${streamSeconds} is not null
      and (s.next_sync_at is null or s.next_sync_at <= ${clockNow()})
      and coalesce(${waitEndOfStream(backoff)} <= ${clockNow()}, true)
      and ${hasItsTurn({ streams })}
      ${after === null ? sql`` : sql`and (${at}, s.stream, s.integration_id) > (${from}::timestamptz, ${after.stream}::text, ${after.id}::bigint)`}
    order by s.next_sync_at asc nulls first, s.stream, s.integration_id
    limit ${limit}`)
  return rows.map(({ id, provider, stream, next }) => ({
    id: Number(id),
    provider,
    stream,
    nextSyncAt: next === null ? null : new Date(Math.round(Number(next))),
  }))
}

/** Set by hand for the stream `s` of the integration `i`. */
export const setSeconds = sql`coalesce(s.sync_interval_seconds, i.sync_interval_minutes * 60.0)::float8`

/** The interval in force of the stream `s` of the integration `i`, as `d` declares it. */
const streamSeconds = sql`coalesce(${setSeconds},
  case when d.least is null then d.seconds else least(d.seconds, greatest(d.least, s.adaptive_seconds)) end)::float8`

/** Without an interval set by hand an adaptive one counts as its longest: a stream is not stale because it was quick before. */
export const longestSeconds = sql`coalesce(${setSeconds}, d.seconds)::float8`

const MINUTE_SECONDS = 60

/** Seconds between two dispatches: within them a run that is due begins. */
export function roundSeconds(framework: Pick<Framework, 'providers'>): number {
  const isQuick = declaredStreams(framework).some(
    ({ seconds, least }) => seconds !== null && (least ?? seconds) < MINUTE_SECONDS,
  )
  return isQuick ? LEAST_SECONDS : MINUTE_SECONDS
}

function checked(minutes: unknown): number | null {
  // The column of an integration's own interval holds no more.
  if (minutes === null || (typeof minutes === 'number' && minutes >= 1 && minutes <= MAX_INTEGER)) return minutes
  throw new RangeError(
    `defaultSyncInterval() gives minutes from 1 to ${MAX_INTEGER}, or null; ${String(minutes)} was given`,
  )
}

/** Due by now; never planned first, then the longest overdue. One page of them. @param after the last of the page before */
export async function dueIntegrations(
  db: Database,
  tables: Tables,
  rule: DueRule,
  limit: number,
  after: DueIntegration | null = null,
): Promise<DueIntegration[]> {
  const { integrations } = tables
  if (rule.intervals.size === 0) return []
  const now = clockNow()
  const rows = await db
    .select({ id: integrations.id, provider: integrations.provider, nextSyncAt: integrations.nextSyncAt })
    .from(integrations)
    .where(
      and(
        canBeDue(tables, rule),
        or(isNull(integrations.nextSyncAt), sql`${integrations.nextSyncAt} <= ${now}`),
        hasWaitedBy(tables, rule, now),
        after === null ? undefined : comesAfter(integrations, after),
      ),
    )
    .orderBy(sql`${integrations.nextSyncAt} asc nulls first`, asc(integrations.id))
    .limit(limit)
  return rows.map((row) => ({ ...row, stream: null }))
}

/** In the order of the list. The column holds milliseconds, as a `Date` does, so that nothing is asked twice. */
function comesAfter({ id, nextSyncAt }: Tables['integrations'], after: DueIntegration): SQL | undefined {
  if (after.nextSyncAt === null) return or(and(isNull(nextSyncAt), gt(id, after.id)), isNotNull(nextSyncAt))
  return or(gt(nextSyncAt, after.nextSyncAt), and(eq(nextSyncAt, after.nextSyncAt), gt(id, after.id)))
}

/** What is due for too long. */
export interface Overdue {
  readonly id: number
  /** Null: the integration's own. */
  readonly stream: string | null
  readonly dueSince: Date
}

/** Integrations that are due for longer than `seconds`, the longest first. A never planned one is due since its creation. */
export async function overdueIntegrations(
  db: Database,
  tables: Tables,
  rule: DueRule,
  { seconds, limit }: { seconds: number; limit: number },
): Promise<Overdue[]> {
  const { integrations } = tables
  if (rule.intervals.size === 0) return []
  const then = sql`clock_timestamp() - make_interval(secs => ${seconds}::double precision)`
  const planned = sql`coalesce(${integrations.nextSyncAt}, ${integrations.createdAt})`
  const dueSince = sql`greatest(${planned}, ${waitEnd(tables, rule)})`
  const rows = await db
    .select({ id: integrations.id, dueSince: dueSince.mapWith(integrations.createdAt) })
    .from(integrations)
    .where(and(canBeDue(tables, rule), sql`${planned} < ${then}`, hasWaitedBy(tables, rule, then)))
    .orderBy(dueSince, asc(integrations.id))
    .limit(limit)
  return rows.map((row) => ({ ...row, stream: null }))
}

/** The same of named streams. */
export async function overdueStreams(
  db: Database,
  { integrations, streams }: Tables,
  { declared, backoff }: { readonly declared: readonly DeclaredStream[]; readonly backoff: HealthBackoff },
  { seconds, limit }: { seconds: number; limit: number },
): Promise<Overdue[]> {
  if (declared.length === 0) return []
  const rows = await db.execute<{ id: string; stream: string; since: string }>(sql`
    select i.id, s.stream, due.since
    from ${streams} s join ${integrations} i on i.id = s.integration_id
    join ${streamRows(declared)} on d.provider = i.provider and d.stream = s.stream
    cross join lateral (
      select greatest(coalesce(s.next_sync_at, s.created_at), ${waitEndOfStream(backoff)}) as since
    ) due
    where i.is_active and i.health_status <> 'disabled' and ${streamSeconds} is not null
      and due.since < clock_timestamp() - make_interval(secs => ${seconds}::float8)
      and ${hasItsTurn({ streams })}
    order by due.since, i.id, s.stream limit ${limit}`)
  return rows.map(({ id, stream, since }) => ({ id: Number(id), stream, dueSince: new Date(since) }))
}

/** When the stream `s` may run for its health; null: at any time. */
function waitEndOfStream({ degraded, failing }: HealthBackoff): SQL {
  return sql`(case when i.health_status <> 'healthy' then greatest(s.last_synced_at, s.last_run_at)
    + ${intervalOf(sql`${streamSeconds} * case i.health_status when 'degraded' then ${degraded}::float8
        else ${failing}::float8 end`)} end)`
}

/** Whether the stream that the stream `s` waits for has had its first run. */
function hasItsTurn({ streams }: Pick<Tables, 'streams'>): SQL {
  return sql`(d.after is null or exists (
    select 1 from ${streams} first
    where first.integration_id = s.integration_id and first.stream = d.after and first.last_run_at is not null))`
}

function canBeDue({ integrations }: Tables, rule: DueRule): SQL | undefined {
  return and(
    eq(integrations.isActive, true),
    sql`${integrations.healthStatus} <> 'disabled'`,
    inArray(integrations.provider, [...rule.intervals.keys()]),
    sql`${ownOrDefaultMinutes(integrations, rule)} is not null`,
  )
}

/** Whether the health wait was over at that moment. The clean run's end is compared first: it needs no other table. */
function hasWaitedBy(tables: Tables, rule: DueRule, moment: SQL): SQL {
  const { integrations } = tables
  const wait = healthWait(integrations, rule)
  return sql`(
    ${integrations.healthStatus} = 'healthy'
    or (coalesce(${integrations.lastSyncedAt} + ${wait} <= ${moment}, true)
      and coalesce(${lastRunEnd(tables)} + ${wait} <= ${moment}, true)))`
}

/** Null: nothing to wait for. */
function waitEnd(tables: Tables, rule: DueRule): SQL {
  const { integrations } = tables
  return sql`case when ${integrations.healthStatus} <> 'healthy'
    then greatest(${integrations.lastSyncedAt}, ${lastRunEnd(tables)}) + ${healthWait(integrations, rule)} end`
}

function healthWait(integrations: Tables['integrations'], { intervals, backoff }: DueRule): SQL {
  return intervalOf(sql`60 * ${ownOrDefaultMinutes(integrations, { intervals })} * case ${integrations.healthStatus}
    when 'degraded' then ${backoff.degraded}::double precision else ${backoff.failing}::double precision end`)
}

/** A provider's default interval is code, so it travels into the statement as JSON. */
function ownOrDefaultMinutes(integrations: Tables['integrations'], { intervals }: Pick<DueRule, 'intervals'>): SQL {
  const defaults = jsonText(Object.fromEntries(intervals))
  return sql`coalesce(${integrations.syncIntervalMinutes}::double precision,
    (${defaults}::jsonb ->> ${integrations.provider})::double precision)`
}

/**
 * Of the newest run that was finalised. One whose log was closed by hand has no duration, and one that took longer than the
 * column can say has the greatest: then its last change counts.
 */
function lastRunEnd({ integrations, logs }: Tables): SQL {
  return sql`(
    select case when l.duration_ms < ${sql.raw(String(MAX_INTEGER))}
      then l.created_at + make_interval(secs => l.duration_ms / 1000.0) else l.updated_at end
    from ${logs} l
    where l.integration_id = ${integrations}.id and l.operation = 'sync' and l.status in ('success', 'partial', 'failed')
    order by l.id desc limit 1)`
}
