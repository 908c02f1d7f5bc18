/** What /metrics asks of the database. Rule: docs/behaviour/metrics.md, "Gauges". */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Database } from '../db/client.ts'
import { HEALTH_STATUSES } from '../db/schema/integrations-table.ts'
import type { Tables } from '../db/schema/tables.ts'
import { INCIDENT_SOURCES } from '../incidents/rules.ts'
import { waitingInboxes } from '../webhooks/wake.ts'

/** How things stand, all integrations together. */
export interface Standing {
  /** `pending`, `processing`, `failed`; each at most {@link MOST_COUNTED}. */
  readonly webhooks: Readonly<Record<string, number>>
  /** 0: none waits. */
  readonly oldestPendingSeconds: number
  /** As `webhooks`. */
  readonly syncItems: Readonly<Record<string, number>>
  readonly stale: number
  readonly circuitsOpen: number
  readonly incidentsOpen: Readonly<Record<string, number>>
  readonly health: Readonly<Record<string, number>>
}

export interface StandingRules {
  readonly breakerEnabled: boolean
  readonly circuitOverrides: boolean
  /** Around the integration's id in the cache key of its calls' state, prefix included. */
  readonly callKey: readonly [before: string, after: string]
  /** Postgres gives up after this time. */
  readonly timeoutMs: number
}

/** Entries that each count reads at most, of an index that has only rows of its status: some 20 ms. */
const MOST_COUNTED = 100_000
/** `processed` and `success` rows are no queue, and there may be millions of them: what flows is counted as it happens. */
const COUNTED = ['pending', 'processing', 'failed'] as const

/** One statement, in a transaction of its own for its time limit. @throws what Postgres says, at its time limit too */
export async function standing(db: Database, tables: Tables, rules: StandingRules): Promise<Standing> {
  return db.transaction(
    async (tx) => {
      // Statistics that lag behind a burst know of no pending row: the planner would read a whole table for a few, or sort them
      // all (webhooks/wake.ts).
      await tx.execute(sql`
        select set_config('statement_timeout', ${String(rules.timeoutMs)}, true), ${sql.join(
          ['enable_seqscan', 'enable_sort', 'enable_incremental_sort'].map(
            (name) => sql`set_config(${name}, 'off', true)`,
          ),
          sql`, `,
        )}`)
      const [row] = await tx.execute<{ standing: Standing }>(statement(tables, rules))
      const read = row?.standing as Standing
      return {
        ...read,
        incidentsOpen: { ...zeros(INCIDENT_SOURCES), ...read.incidentsOpen },
        health: { ...zeros(HEALTH_STATUSES), ...read.health },
      }
    },
    { accessMode: 'read only' },
  )
}

function statement(tables: Tables, rules: StandingRules): SQL {
  const { cache, incidents, integrations, syncItems, webhooks } = tables
  const [before, after] = rules.callKey
  // Since its arrival, so that a row which a worker takes and hands back over and over waits on; one that a replay has put back,
  // however old, since it was written last.
  const waitsSince = sql`case when w.replay_attempt is null then w.created_at else w.updated_at end`
  return sql`
    with recursive ${waitingInboxes(tables, waitsSince)}
    select jsonb_build_object(
      'webhooks', ${countsOf(webhooks, { failed: sql`and dismissed_at is null` })},
      'oldestPendingSeconds', (
        select coalesce(greatest(extract(epoch from clock_timestamp() - min(waiting.since)), 0), 0)
        from waiting join ${integrations} i on i.id = waiting.integration_id
        where i.health_status <> 'disabled'),
      'syncItems', ${countsOf(syncItems)},
      'stale', (select count(*) from ${integrations} where sync_stale_alerted_at is not null),
      'circuitsOpen', (
        select count(*) from ${integrations} i left join ${cache} c on c.key = ${before}::text || i.id || ${after}::text
        where case
          when ${rules.circuitOverrides} and i.circuit_override in ('forced_open', 'forced_closed', 'disabled')
            and (i.circuit_override_until is null or i.circuit_override_until > clock_timestamp())
          then i.circuit_override = 'forced_open'
          else ${rules.breakerEnabled} and c.value #>> '{breaker,state}' = 'open'
        end),
      'incidentsOpen', (
        select coalesce(jsonb_object_agg(source, count), '{}') from (
          select source, count(*) from ${incidents} where status = 'open' group by source) open),
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
