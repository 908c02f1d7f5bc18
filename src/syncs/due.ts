/**
 * Which integrations are due, and when the next run of one is.
 *
 * test/activities/sync-dispatch.pg.test.ts compares the statements with a model of the rule.
 * Rule: docs/behaviour/sync-scheduling.md, "Due" and "Waiting for health".
 */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, gt, inArray, isNotNull, isNull, or, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { clockNow, intervalOf, jsonText, MAX_INTEGER } from '../db/schema/columns.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { errorLine } from '../framework/logger.ts'
import { recordRunTimes } from '../integrations/queries.ts'
import { hasScheduledSync } from '../providers/contracts.ts'
import { intervalMultiplier } from './run-rules.ts'

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

export interface DueIntegration {
  readonly id: number
  readonly provider: string
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
  return db
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
}

/** In the order of the list. The column holds milliseconds, as a `Date` does, so that nothing is asked twice. */
function comesAfter({ id, nextSyncAt }: Tables['integrations'], after: DueIntegration): SQL | undefined {
  if (after.nextSyncAt === null) return or(and(isNull(nextSyncAt), gt(id, after.id)), isNotNull(nextSyncAt))
  return or(gt(nextSyncAt, after.nextSyncAt), and(eq(nextSyncAt, after.nextSyncAt), gt(id, after.id)))
}

/** Integrations that are due for longer than `seconds`, the longest first. A never planned one is due since its creation. */
export async function overdueIntegrations(
  db: Database,
  tables: Tables,
  rule: DueRule,
  { seconds, limit }: { seconds: number; limit: number },
): Promise<{ id: number; dueSince: Date }[]> {
  const { integrations } = tables
  if (rule.intervals.size === 0) return []
  const then = sql`clock_timestamp() - make_interval(secs => ${seconds}::double precision)`
  const planned = sql`coalesce(${integrations.nextSyncAt}, ${integrations.createdAt})`
  const dueSince = sql`greatest(${planned}, ${waitEnd(tables, rule)})`
  return db
    .select({ id: integrations.id, dueSince: dueSince.mapWith(integrations.createdAt) })
    .from(integrations)
    .where(and(canBeDue(tables, rule), sql`${planned} < ${then}`, hasWaitedBy(tables, rule, then)))
    .orderBy(dueSince, asc(integrations.id))
    .limit(limit)
}

function canBeDue({ integrations }: Tables, rule: DueRule): SQL | undefined {
  return and(
    eq(integrations.isActive, true),
    sql`${integrations.healthStatus} <> 'disabled'`,
    inArray(integrations.provider, [...rule.intervals.keys()]),
    sql`${intervalMinutes(integrations, rule)} is not null`,
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
  return intervalOf(sql`60 * ${intervalMinutes(integrations, { intervals })} * case ${integrations.healthStatus}
    when 'degraded' then ${backoff.degraded}::double precision else ${backoff.failing}::double precision end`)
}

/** A provider's default interval is code, so it travels into the statement as JSON. */
function intervalMinutes(integrations: Tables['integrations'], { intervals }: Pick<DueRule, 'intervals'>): SQL {
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

/** `cancelled` leaves the counter, and the next run comes after one interval. */
export type RunEnding = 'clean' | 'with failures' | 'cancelled'

/**
 * Writes the times and the counter of a run that ends, under the lock of its integration.
 *
 * Rule: docs/behaviour/sync-cursor.md, "Finalisation".
 *
 * @param row as it was locked
 * @param cursor undefined: it stays
 */
export async function planNext(
  framework: Framework,
  tx: Transaction,
  row: IntegrationRow,
  ending: RunEnding,
  cursor?: Json,
): Promise<void> {
  const { config, tables } = framework
  const interval = row.syncIntervalMinutes ?? defaultIntervals(framework).get(row.provider) ?? null
  const before = row.consecutiveSyncFailures
  const counted = { clean: 0, 'with failures': Math.min(before + 1, MAX_INTEGER), cancelled: before }
  const consecutiveFailures = counted[ending]
  const multiplier =
    ending === 'cancelled' ? 1 : intervalMultiplier(consecutiveFailures, config.sync.failure_backoff_max_multiplier)
  await recordRunTimes(tx, tables, row.id, {
    clean: ending === 'clean',
    consecutiveFailures,
    intervalMinutes: interval === null ? null : interval * multiplier,
    ...(cursor === undefined ? {} : { cursor }),
  })
}
