/** Statements over the rows of a run that is being listed. A later try of the listing shuts the earlier ones out. */
import { and, asc, eq, getTableColumns, gt, sql } from 'drizzle-orm'
import { keptCheckPlans } from '../../db/check-plans.ts'
import type { Database, Transaction } from '../../db/client.ts'
import { jsonText } from '../../db/schema/columns.ts'
import type { LogRow, Tables } from '../../db/schema/tables.ts'
import type { Json } from '../../framework/json.ts'

export interface NewSyncItem {
  readonly eventClass: string
  readonly externalId: string | null
  /** As JSON text that `jsonb` takes: it is written once, when the item is handed in. */
  readonly checkpoint: string
  readonly payload: string
  /** Of the payload; not there, or null: its stream has no `skipUnchanged`. */
  readonly hash?: string | null
}

/** An item of a chunk. */
export interface ListedItem extends NewSyncItem {
  /** Of an item that an earlier chunk has stored: the newer copy takes its place. */
  readonly isRepeat: boolean
}

/** The try of a listing that stores: of two that overlap, only the later one may. */
export interface ListingTry {
  readonly integrationId: number
  readonly stream: string | null
  readonly syncLogId: number
  readonly batchId: string
  readonly attempt: number
}

/** What the log notes together with the items. */
export type ListingNote =
  | {
      readonly kind: 'bookmark'
      /** Without `item_id`: that is the last row's. */
      readonly bookmark: Readonly<Record<string, Json>>
    }
  | { readonly kind: 'complete'; readonly metadata: Readonly<Record<string, Json>> }

export interface BegunListing {
  readonly log: LogRow
  /** By the database's clock. */
  readonly startedAt: Date
}

/**
 * Makes this try the one that stores. It waits for a chunk of an earlier try that is being stored at this moment; the next one
 * is refused.
 *
 * @returns null when a later try has begun, the listing is complete, or the run is over
 */
export async function beginListing(
  db: Database,
  { logs }: Tables,
  { syncLogId, attempt }: { syncLogId: number; attempt: number },
): Promise<BegunListing | null> {
  const [row] = await db
    .update(logs)
    .set({
      metadata: sql`coalesce(${logs.metadata}, '{}'::jsonb) || jsonb_build_object('listing_attempt', ${attempt}::int)`,
    })
    .where(
      and(
        eq(logs.id, syncLogId),
        eq(logs.status, 'processing'),
        sql`${logs.metadata} -> 'enumerated' is distinct from 'true'::jsonb`,
        sql`coalesce((${logs.metadata} ->> 'listing_attempt')::int, 0) < ${attempt}`,
      ),
    )
    .returning(begunColumns(logs))
  return row === undefined ? null : begunListing(row)
}

/** A run's log with its listing begun, as the first try. */
export async function insertListingLog(
  tx: Transaction,
  { logs }: Tables,
  values: typeof logs.$inferInsert,
): Promise<BegunListing> {
  const metadata = { ...(values.metadata as object), listing_attempt: 1 }
  const [row] = await tx
    .insert(logs)
    .values({ ...values, metadata })
    .returning(begunColumns(logs))
  return begunListing(row as NonNullable<typeof row>)
}

const begunColumns = (logs: Tables['logs']) => ({
  ...getTableColumns(logs),
  startedAt: sql<string>`extract(epoch from clock_timestamp()) * 1000`.mapWith(Number),
})

function begunListing({ startedAt, ...log }: LogRow & { startedAt: number }): BegunListing {
  return { log, startedAt: new Date(startedAt) }
}

/**
 * Stores a chunk of listed items as `pending`, in order, and what the log is to say with them: all of it, or nothing.
 *
 * The log's row is locked first. So a try that was superseded, or whose run was ended, while it waited stores nothing: the
 * lock is given with the row as it is then.
 *
 * A repeat takes the place of its row, which has not begun: items start only after a whole listing.
 *
 * @param lastId of the last row that the listing has stored before; 0: none
 * @returns the id of the last row that the listing has stored; null: this try may not store any more
 * @throws when the row of a repeat is gone or has begun: with the older copy in it the run must not move the cursor
 */
export async function storeListed(
  db: Database,
  { syncItems, logs }: Tables,
  run: ListingTry,
  { items, note, lastId }: { items: readonly ListedItem[]; note: ListingNote | null; lastId: number },
): Promise<number | null> {
  const repeats = items.filter(({ isRepeat }) => isRepeat)
  const [row] = await db.execute<{ may: boolean; last: string | null; replaced: string }>(sql`
    with run as (
      select l.id, l.integration_id from ${logs} l
      where l.id = ${run.syncLogId} and l.status = 'processing'
        and l.metadata -> 'enumerated' is distinct from 'true'::jsonb
        and (l.metadata ->> 'listing_attempt')::int = ${run.attempt}
      for no key update
    ), stored as (
      insert into ${syncItems} (integration_id, stream, sync_log_id, batch_id, event_class, external_id, checkpoint_value, payload, record_hash)
      select ${run.integrationId}::bigint, ${run.stream}::text, run.id, ${run.batchId}, item.e, item.x, item.c, item.p, item.h
      from run cross join
           rows from (json_to_recordset(${chunkText(items.filter(({ isRepeat }) => !isRepeat))}::json) as (e text, x text, c jsonb, p jsonb, h text))
             with ordinality as item (e, x, c, p, h, position)
      order by item.position
      returning id
    ), last as (
      select greatest(max(id), ${lastId}::bigint) as id from stored
    ), replaced as (${repeats.length === 0 ? sql`select 1` : replacing(syncItems, repeats)})${noted(logs, note)}
    select exists (select 1 from run) as may, (select id from last) as last, (select count(*) from replaced) as replaced,
      ${keptCheckPlans}`)
  if (row?.may !== true) return null
  if (repeats.length > 0 && Number(row.replaced) < repeats.length)
    throw new Error('an item that was listed twice is gone, or has begun before its listing was complete')
  return Number(row.last)
}

/**
 * Finds the rows by external id alone: `offset 0` applies the other conditions later, and the planner does not know
 * which integration it is. By statistics of before the listing, the index of the run or of the integration seems to
 * give few rows, but gives all that the run has stored.
 */
function replacing(syncItems: Tables['syncItems'], repeats: readonly ListedItem[]) {
  return sql`
      update ${syncItems} s
      set checkpoint_value = found.c, payload = found.p, record_hash = found.h, updated_at = clock_timestamp()
      from (
        select i.id, item.c, item.p, item.h
        from run
        cross join json_to_recordset(${chunkText(repeats)}::json) as item (e text, x text, c jsonb, p jsonb, h text)
        cross join lateral (
          select i.id, i.sync_log_id, i.event_class, i.status, i.attempts from ${syncItems} i
          where i.integration_id = run.integration_id and i.external_id = item.x
          offset 0
        ) i
        where i.sync_log_id = run.id and i.event_class = item.e and i.status = 'pending' and i.attempts = 0
      ) found
      where s.id = found.id
      returning s.id
    `
}

function noted(logs: Tables['logs'], note: ListingNote | null) {
  if (note === null) return sql``
  const metadata =
    note.kind === 'complete'
      ? sql`(l.metadata - 'bookmark') || ${jsonText(note.metadata)}::jsonb`
      : sql`l.metadata || jsonb_build_object('bookmark',
              ${jsonText(note.bookmark)}::jsonb || jsonb_build_object('item_id', (select id from last)))`
  return sql`, noted as (
      update ${logs} l set metadata = ${metadata}, updated_at = clock_timestamp() where l.id = (select id from run)
    )`
}

function chunkText(items: readonly NewSyncItem[]): string {
  return `[${items.map(itemText).join(',')}]`
}

function itemText({ eventClass, externalId, checkpoint, payload, hash = null }: NewSyncItem): string {
  return `{"e":${JSON.stringify(eventClass)},"x":${JSON.stringify(externalId)},"c":${checkpoint},"p":${payload},"h":${JSON.stringify(hash)}}`
}

/** Keys that identify the kept rows of a listing, page by page. The checkpoint is JSON text; null: there is none. */
export async function* listedKeys(
  db: Database,
  { syncItems }: Tables,
  syncLogId: number,
  pageSize: number,
): AsyncGenerator<{ id: number; eventClass: string; externalId: string | null; checkpoint: string | null }[]> {
  let after = 0
  for (;;) {
    const rows = await db
      .select({
        id: syncItems.id,
        eventClass: syncItems.eventClass,
        externalId: syncItems.externalId,
        checkpoint: sql<string | null>`${syncItems.checkpointValue}::text`,
      })
      .from(syncItems)
      .where(
        and(
          // As in claimPendingItems(): by another index each page would read and sort all that the run has stored.
          sql`${syncItems.syncLogId} + 0 = ${syncLogId}`,
          sql`${syncItems.status} = 'pending'`,
          gt(syncItems.id, after),
        ),
      )
      .orderBy(asc(syncItems.id))
      .limit(pageSize)
    if (rows.length === 0) return
    after = rows.at(-1)?.id ?? after
    yield rows
  }
}
