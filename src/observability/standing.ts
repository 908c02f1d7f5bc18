/** How things stand, for /metrics: asked rarely, answered in time or not at all. Rule: docs/behaviour/metrics.md, "Gauges". */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import { aroundCallStateId } from '../calls/call-target.ts'
import { HEALTH_STATUSES } from '../db/schema/integrations-table.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine, givenNowMs } from '../framework/logger.ts'
import { RepeatedWarnings } from '../framework/repeated-warnings.ts'
import { inTime } from '../framework/waiting.ts'
import { INCIDENT_SOURCES } from '../incidents/rules.ts'
import { waitingInboxes } from '../webhooks/wake.ts'

/** A scrape within this time gets the same answer: several Prometheus servers cost as much as one. */
const SHARED_FOR_MS = 5_000
/** Prometheus waits 10 s by default, and the counters are to reach it whatever becomes of the database. */
const ANSWER_WITHIN_MS = 4_000
/** Postgres itself gives up before. */
const STATEMENT_MS = 3_000

/**
 * @param db has a connection of its own: a busy pool must not look like a database that is away
 * @returns asks; null: the database did not answer in time
 */
export function standingReader(framework: Framework, db: Framework['db']): () => Promise<Standing | null> {
  const warnings = new RepeatedWarnings(framework.logger, framework.clock)
  /** It may hang beyond all limits, and then no other one is begun: each would hold a connection. */
  let underWay: Promise<Standing | null> | null = null
  let answer: { readonly value: Standing | null; readonly at: number } | null = null

  async function read(): Promise<Standing | null> {
    let value: Standing | null = null
    try {
      value = await standing(framework, db)
    } catch (error) {
      warnings.warn(
        'unread',
        () => ({ event: 'metrics.database_unread', error: errorLine(error, 300) }),
        'the gauges of /metrics could not be read from the database',
      )
    }
    answer = { value, at: performance.now() }
    underWay = null
    return value
  }

  return async () => {
    if (answer !== null && performance.now() - answer.at < SHARED_FOR_MS) return answer.value
    underWay ??= read()
    return inTime(underWay, ANSWER_WITHIN_MS)
  }
}

/** How things stand, all integrations together. */
export interface Standing {
  /** `pending`, `processing`, `failed`; each at most {@link MOST_COUNTED}. */
  readonly webhooks: Readonly<Record<string, number>>
  /** 0: none waits. */
  readonly oldestPendingSeconds: number
  /** As `webhooks`. */
  readonly syncItems: Readonly<Record<string, number>>
  readonly stale: number
  readonly staleStreams: readonly { readonly provider: string; readonly stream: string; readonly count: number }[]
  readonly circuitsOpen: number
  readonly incidentsOpen: Readonly<Record<string, number>>
  /** Of `incidentsOpen`: neither acknowledged nor snoozed. */
  readonly incidentsUnattended: Readonly<Record<string, number>>
  readonly health: Readonly<Record<string, number>>
}

/** Entries that each count reads at most, of an index that has only rows of its status: some 20 ms. */
const MOST_COUNTED = 100_000
/** `processed` and `success` rows are no queue, and there may be millions of them: what flows is counted as it happens. */
const COUNTED = ['pending', 'processing', 'failed'] as const

/** One statement, in a transaction of its own for its time limit. @throws what Postgres says, at its time limit too */
async function standing(framework: Framework, db: Framework['db']): Promise<Standing> {
  return db.transaction(
    async (tx) => {
      // Statistics that lag behind a burst know of no pending row: the planner would read a whole table for a few, or sort them
      // all (webhooks/wake.ts).
      await tx.execute(sql`
        select set_config('statement_timeout', ${String(STATEMENT_MS)}, true), ${sql.join(
          ['enable_seqscan', 'enable_sort', 'enable_incremental_sort'].map(
            (name) => sql`set_config(${name}, 'off', true)`,
          ),
          sql`, `,
        )}`)
      const [row] = await tx.execute<{ standing: Standing }>(statement(framework))
      const read = row?.standing as Standing
      return {
        ...read,
        incidentsOpen: { ...zeros(INCIDENT_SOURCES), ...read.incidentsOpen },
        incidentsUnattended: { ...zeros(INCIDENT_SOURCES), ...read.incidentsUnattended },
        health: { ...zeros(HEALTH_STATUSES), ...read.health },
      }
    },
    { accessMode: 'read only' },
  )
}

function statement(framework: Framework): SQL {
  const { tables } = framework
  const { enabled: breakerEnabled, overrides_enabled: overridesEnabled } = framework.config.circuit_breaker
  const { cache, incidents, integrations, streams, syncItems, webhooks } = tables
  // Around the integration's id in the cache key of its calls' state, prefix included.
  const [before, after] = aroundCallStateId(framework)
  // Since its arrival, so that a row which a worker takes and hands back over and over waits on; one that a replay has put back,
  // however old, since it was written last.
  const waitsSince = sql`case when w.replay_attempt is null then w.created_at else w.updated_at end`
  // By the clock that admission judges overrides by, and the repeats of an incident its snooze.
  const nowMs = givenNowMs(framework)
  const now = nowMs === null ? sql`clock_timestamp()` : sql`to_timestamp(${nowMs}::double precision / 1000)`
  // A person's switch keeps the marks, and no run or probe would take them away (docs/behaviour/health.md).
  const isOn = sql`(i.switched_off_at is null and (i.is_active or i.health_status = 'disabled'))`
  return sql`
    with recursive ${waitingInboxes(tables, waitsSince)}
    select jsonb_build_object(
      'webhooks', ${countsOf(webhooks, { failed: sql`and dismissed_at is null` })},
      'oldestPendingSeconds', (
        select coalesce(greatest(extract(epoch from clock_timestamp() - min(waiting.since)), 0), 0)
        from waiting join ${integrations} i on i.id = waiting.integration_id
        where i.health_status <> 'disabled'),
      'syncItems', ${countsOf(syncItems)},
      'stale', (select count(*) from ${integrations} i where i.sync_stale_alerted_at is not null and ${isOn}),
      'staleStreams', (
        select coalesce(jsonb_agg(late), '[]') from (
          select i.provider, s.stream, count(*) from ${streams} s join ${integrations} i on i.id = s.integration_id
          where s.sync_stale_alerted_at is not null and ${isOn} group by i.provider, s.stream) late),
      'circuitsOpen', (
        select count(*) from ${integrations} i left join ${cache} c on c.key = ${before}::text || i.id || ${after}::text
        where ${isOn} and case
          when ${overridesEnabled} and i.circuit_override in ('forced_open', 'forced_closed', 'disabled')
            and (i.circuit_override_until is null or i.circuit_override_until > ${now})
          then i.circuit_override = 'forced_open'
          else ${breakerEnabled} and c.value #>> '{breaker,state}' = 'open'
        end),
      'incidentsOpen', (
        select coalesce(jsonb_object_agg(source, count), '{}') from (
          select n.source, count(*) from ${incidents} n join ${integrations} i on i.id = n.integration_id
          where n.status = 'open' and ${isOn} group by n.source) open),
      'incidentsUnattended', (
        select coalesce(jsonb_object_agg(source, count), '{}') from (
          select n.source, count(*) from ${incidents} n join ${integrations} i on i.id = n.integration_id
          where n.status = 'open' and ${isOn}
            and n.acknowledged_at is null and (n.snoozed_until is null or n.snoozed_until <= ${now})
          group by n.source) unattended),
      'health', (
        select coalesce(jsonb_object_agg(health_status, count), '{}') from (
          select health_status, count(*) from ${integrations} group by health_status) health)
    ) as standing`
}

/** By the partial indexes, which have no other rows. */
function countsOf(table: PgTable, further: { readonly failed?: SQL } = {}): SQL {
  const counts = COUNTED.map((status) => {
    const condition = status === 'failed' ? (further.failed ?? sql``) : sql``
    // Written out: a planner that knows the status can tell that the partial index has all of them.
    const of = sql.raw(`'${status}'`)
    return sql`${of}, (select count(*) from (select from ${table} where status = ${of} ${condition} limit ${sql.raw(String(MOST_COUNTED))}) counted)`
  })
  return sql`jsonb_build_object(${sql.join(counts, sql`, `)})`
}

function zeros(names: readonly string[]): Record<string, number> {
  return Object.fromEntries(names.map((name) => [name, 0]))
}
