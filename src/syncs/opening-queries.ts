/** Statements that open a run. */
import type { SQL } from 'drizzle-orm'
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { clockNow, jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Json } from '../framework/json.ts'
import type { SyncOf } from './sync-jobs.ts'
import type { SyncRow } from './sync-rows.ts'
import { isOfStream, itemsOf, overlaid } from './sync-rows.ts'

/** At most one run of a stream is open. It is among the newest: a run that adopts an older one opens none. */
const RECENT_RUNS = 20

/** A run as the opening of the next one sees it. */
export interface RecentRun {
  readonly syncLogId: number
  readonly isOpen: boolean
  readonly isEnumerated: boolean
  /** Of the workflow that opened it. */
  readonly runId: string | null
  /** Of the workflow that went on with it. */
  readonly adoptedBy: string | null
  /** Of the workflow that failed its abandoned items and finalised it. */
  readonly reclaimedBy: string | null
}

/** The newest runs of a stream, newest first. Reads no more rows than these, however many years there are. */
export async function recentRuns(db: Database | Transaction, { logs }: Tables, of: SyncOf): Promise<RecentRun[]> {
  const [row] = await db.execute<{ runs: RecentRun[] }>(sql`select ${runsOf(logs, of)} as runs`)
  return row?.runs ?? []
}

/** The state that the opening of a run starts from. */
export interface Opening {
  readonly row: SyncRow
  readonly runs: readonly RecentRun[]
  /** Whether a worker holds an item of the stream, or held it when it died. */
  readonly isInWork: boolean
  /** By the database's clock. */
  readonly isDue: boolean
}

/** Null: the integration is gone. */
export async function readOpening(
  db: Database | Transaction,
  { integrations, streams, logs, syncItems }: Tables,
  of: SyncOf,
): Promise<Opening | null> {
  const { integrationId, stream = null } = of
  const { nextSyncAt } = stream === null ? integrations : streams
  const [found] = await db
    .select({
      integration: integrations,
      named: streams,
      runs: sql<RecentRun[]>`${runsOf(logs, of)}`,
      isDue: sql<boolean>`coalesce(${nextSyncAt} <= ${clockNow()}, true)`,
      isInWork: sql<boolean>`exists (
        select 1 from ${syncItems} i
        where ${itemsOf(sql`i`, of)} and i.status = 'processing')`,
    })
    .from(integrations)
    .leftJoin(streams, and(eq(streams.integrationId, integrations.id), sql`${streams.stream} = ${stream}`))
    .where(eq(integrations.id, integrationId))
  if (found === undefined) return null
  const { integration, named, ...opening } = found
  return { ...opening, row: stream === null ? { ...integration, stream } : overlaid(integration, stream, named) }
}

function runsOf(logs: Tables['logs'], { integrationId, stream }: SyncOf): SQL {
  return sql`coalesce((
    select jsonb_agg(jsonb_build_object(
      'syncLogId', id, 'isOpen', status = 'processing',
      'isEnumerated', coalesce(metadata -> 'enumerated' = 'true'::jsonb, false),
      'runId', metadata ->> 'run_id', 'adoptedBy', metadata ->> 'adopted_by', 'reclaimedBy', metadata ->> 'reclaimed_by'
    ) order by id desc)
    from (
      select l.id, l.status, l.metadata from ${logs} l
      where l.integration_id = ${integrationId} and l.operation = 'sync' and ${isOfStream(sql`l.stream`, stream)}
      order by l.id desc limit ${RECENT_RUNS}) recent
  ), '[]'::jsonb)`
}

/** Adds to the metadata of an open run. False: the run has ended. */
export async function noteOpenRun(
  db: Database,
  { logs }: Tables,
  syncLogId: number,
  patch: Record<string, Json>,
): Promise<boolean> {
  const rows = await db
    .update(logs)
    .set({ metadata: sql`coalesce(${logs.metadata}, '{}'::jsonb) || ${jsonText(patch)}::jsonb` })
    .where(and(eq(logs.id, syncLogId), eq(logs.status, 'processing')))
    .returning({ id: logs.id })
  return rows.length > 0
}

/** Seconds since the run last claimed what it still holds, by the database's clock. Null: it holds nothing. */
export async function secondsSinceLastClaim(
  db: Database,
  { syncItems }: Tables,
  syncLogId: number,
): Promise<number | null> {
  const [row] = await db
    .select({
      seconds: sql<string | null>`extract(epoch from clock_timestamp() - max(${syncItems.updatedAt}))`,
    })
    .from(syncItems)
    .where(and(eq(syncItems.syncLogId, syncLogId), eq(syncItems.status, 'processing'), isNotNull(syncItems.claim)))
  return row === undefined || row.seconds === null ? null : Number(row.seconds)
}
