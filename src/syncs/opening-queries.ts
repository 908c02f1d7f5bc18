/** Statements that open a run, and that find and take over what a dead one left behind. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, isNotNull, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { clockNow, jsonText } from '../db/schema/columns.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Json } from '../framework/json.ts'

/** Prefix of a claim that an item's own workflow holds, not a run. */
const OWN_WORKFLOW_CLAIM = 'retry-'

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

/** The newest runs of an integration, newest first. Reads no more rows than these, however many years there are. */
export async function recentRuns(
  db: Database | Transaction,
  { logs }: Tables,
  integrationId: number,
  limit: number,
): Promise<RecentRun[]> {
  const [row] = await db.execute<{ runs: RecentRun[] }>(sql`select ${runsOf(logs, integrationId, limit)} as runs`)
  return row?.runs ?? []
}

/** The state that the opening of a run starts from. */
export interface Opening {
  readonly row: IntegrationRow
  readonly runs: readonly RecentRun[]
  /** Whether a worker holds an item of the integration, or held it when it died. */
  readonly isInWork: boolean
  /** By the database's clock. */
  readonly isDue: boolean
}

/** Null: the integration is gone. */
export async function readOpening(
  db: Database | Transaction,
  { integrations, logs, syncItems }: Tables,
  integrationId: number,
  limit: number,
): Promise<Opening | null> {
  const [found] = await db
    .select({
      row: integrations,
      runs: sql<RecentRun[]>`${runsOf(logs, integrationId, limit)}`,
      isDue: sql<boolean>`coalesce(${integrations.nextSyncAt} <= ${clockNow()}, true)`,
      isInWork: sql<boolean>`exists (
        select 1 from ${syncItems} i where i.integration_id = ${integrationId} and i.status = 'processing')`,
    })
    .from(integrations)
    .where(eq(integrations.id, integrationId))
  return found ?? null
}

function runsOf(logs: Tables['logs'], integrationId: number, limit: number): SQL {
  return sql`coalesce((
    select jsonb_agg(jsonb_build_object(
      'syncLogId', id, 'isOpen', status = 'processing',
      'isEnumerated', coalesce(metadata -> 'enumerated' = 'true'::jsonb, false),
      'runId', metadata ->> 'run_id', 'adoptedBy', metadata ->> 'adopted_by', 'reclaimedBy', metadata ->> 'reclaimed_by'
    ) order by id desc)
    from (
      select l.id, l.status, l.metadata from ${logs} l
      where l.integration_id = ${integrationId} and l.operation = 'sync' order by l.id desc limit ${limit}) recent
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

/**
 * Items that a workflow of their own holds, or held before it died.
 *
 * @param of a run; or an integration, all of whose ordinary runs are meant
 */
export async function itemsRetriedByHand(
  db: Database,
  { syncItems, logs }: Tables,
  of: { readonly syncLogId: number } | { readonly integrationId: number },
): Promise<number[]> {
  const among =
    'syncLogId' in of
      ? sql`s.sync_log_id = ${of.syncLogId}`
      : sql`s.integration_id = ${of.integrationId}
        and exists (select 1 from ${logs} l where l.id = s.sync_log_id and l.operation = 'sync')`
  const rows = await db.execute<{ id: string }>(sql`
    select s.id from ${syncItems} s
    where ${among} and s.status = 'processing' and starts_with(s.claim, ${OWN_WORKFLOW_CLAIM})
    order by s.id`)
  return rows.map((row) => Number(row.id))
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

/**
 * Takes the rows of a run from dead claims. A first attempt goes back to the queue; a later one waits for as long as it
 * would have. A batch that comes late finds its claim gone and changes nothing.
 *
 * @param keep the run id of the workflow that resumes the run: the rows of its own batches stay. Null: no row stays
 * @param keepItems held by living workflows of their own
 * @param olderThanSeconds a claim made since then stays
 */
export async function giveBackHeldItems(
  db: Database,
  { syncItems }: Tables,
  given: {
    readonly syncLogId: number
    readonly keep: string | null
    readonly keepItems: readonly number[]
    readonly olderThanSeconds: number
  },
): Promise<number> {
  const kept = given.keep === null ? sql`` : sql` and not starts_with(claim, ${`${given.keep}:`})`
  // A retry by hand holds its row between two attempts, too: there is none to be given back then.
  const begun = sql`case when claim like '%:waiting' then attempts else greatest(attempts - 1, 0) end`
  const rows = await db.execute<{ id: string }>(sql`
    update ${syncItems}
    set status = case when ${begun} > 0 then 'processing' else 'pending' end, attempts = ${begun}, claim = null
    where sync_log_id = ${given.syncLogId} and status = 'processing' and claim is not null
      and updated_at <= clock_timestamp() - make_interval(secs => ${given.olderThanSeconds})
      and id not in (select value::bigint from jsonb_array_elements_text(${jsonText(given.keepItems)}::jsonb))${kept}
    returning id`)
  return rows.length
}

export interface InFlightItem {
  readonly id: number
  readonly syncLogId: number | null
  readonly externalId: string | null
  readonly attempts: number
  readonly claim: string | null
}

/** Items that began, have not ended, and are older than `seconds`. A backfill's items go on with it. */
export async function itemsInFlightSince(
  db: Database,
  { syncItems, logs }: Tables,
  { integrationId, seconds }: { integrationId: number; seconds: number },
): Promise<InFlightItem[]> {
  return db
    .select({
      id: syncItems.id,
      syncLogId: syncItems.syncLogId,
      externalId: syncItems.externalId,
      attempts: syncItems.attempts,
      claim: syncItems.claim,
    })
    .from(syncItems)
    .leftJoin(logs, eq(logs.id, syncItems.syncLogId))
    .where(
      and(
        eq(syncItems.integrationId, integrationId),
        eq(syncItems.status, 'processing'),
        sql`${syncItems.createdAt} < clock_timestamp() - make_interval(secs => ${seconds}::double precision)`,
        sql`${logs.operation} is distinct from 'backfill'`,
      ),
    )
    .orderBy(asc(syncItems.id))
}

/** Fails the items that have not moved since they were read. @returns these */
export async function failAbandonedItems(
  db: Database,
  { syncItems }: Tables,
  items: readonly InFlightItem[],
): Promise<InFlightItem[]> {
  if (items.length === 0) return []
  const rows = await db.execute<{ id: string }>(sql`
    update ${syncItems} s
    set status = 'failed', error = 'abandoned', claim = null, next_attempt_at = null, completed_at = clock_timestamp(), updated_at = clock_timestamp()
    from jsonb_to_recordset(${jsonText(items)}::jsonb) as seen (id bigint, attempts integer, claim text)
    where s.id = seen.id and s.status = 'processing' and s.attempts = seen.attempts
      and s.claim is not distinct from seen.claim
    returning s.id`)
  const failed = new Set(rows.map((row) => Number(row.id)))
  return items.filter(({ id }) => failed.has(id))
}
