/**
 * What the listeners have had of each record: statements over the record hashes.
 *
 * Rule: docs/behaviour/sync-changes.md.
 */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { SyncItemRow, Tables } from '../db/schema/tables.ts'
import type { RecordChange } from '../providers/provider-events.ts'
import type { SyncOf } from './sync-jobs.ts'
import { OWN_STREAM } from './sync-rows.ts'

/** A record with the hash of its payload as it is listed now. */
export interface HashedRecord {
  readonly eventClass: string
  readonly externalId: string
  readonly hash: string
}

/** A part of a listing: what is stored together. */
export interface ListedPart {
  readonly syncLogId: number
  /** From 1. */
  readonly part: number
}

/**
 * Notes which of these records are as they were handled last. Only a full listing's note outlives that of a later run. Of a record that
 * is listed twice the first part is noted: a bookmark may lie between the two.
 *
 * Each `offset 0` keeps the planner to the order that is written: a look-up by the whole key for each record. By statistics of
 * before the first run, all records of the stream seem to be one row, and would be read for each part of the listing.
 *
 * None that waits in a backfill: that copy may be another one, and only a newer item keeps it from being handled last.
 *
 * @returns these
 */
export async function markUnchanged(
  db: Database,
  { recordHashes, logs, syncItems }: Tables,
  { integrationId, stream }: SyncOf,
  { syncLogId, part }: ListedPart,
  listed: readonly HashedRecord[],
): Promise<Pick<HashedRecord, 'eventClass' | 'externalId'>[]> {
  if (listed.length === 0) return []
  const given = listed.map(({ eventClass: e, externalId: x, hash: h }) => ({ e, x, h }))
  const rows = await despiteDeadlocks(() =>
    db.execute<{ event_class: string; external_id: string }>(sql`
      update ${recordHashes} r set listed_log_id = ${syncLogId},
        listed_part = case when r.listed_log_id = ${syncLogId} then least(r.listed_part, ${part}::int) else ${part}::int end,
        full_log_id = case
        when exists (select 1 from ${logs} l where l.id = r.listed_log_id and ${isFullListing(sql`l.metadata`)})
        then r.listed_log_id else r.full_log_id end
      from (
        select known.id, item.h from json_to_recordset(${JSON.stringify(given)}::json) as item (e text, x text, h text)
        cross join lateral (
          select k.id, k.hash from ${recordHashes} k
          where k.integration_id = ${integrationId} and k.stream = ${stream ?? OWN_STREAM}
            and k.external_id = item.x and k.event_class = item.e
          offset 0
        ) known
        where known.hash = item.h
        offset 0
      ) same
      where r.id = same.id and r.hash = same.h and r.is_handled and r.deleted_at is null and (
        not exists (
          select 1 from ${logs} l
          where l.integration_id = ${integrationId} and l.operation = 'backfill' and l.status = 'processing')
        or (
          select i.id from ${syncItems} i
          where i.integration_id = ${integrationId} and i.external_id = r.external_id and i.event_class = r.event_class
            and i.status in ('pending', 'processing')
          limit 1) is null)
      returning r.event_class, r.external_id`),
  )
  return rows.map(({ event_class: eventClass, external_id: externalId }) => ({ eventClass, externalId }))
}

/**
 * Forgets the parts of a listing beyond this one: the next try numbers its own from there. That an earlier try named their records stays
 * noted: none of them is taken for deleted.
 */
export async function forgetPartsBeyond(
  db: Database,
  { recordHashes }: Tables,
  { integrationId, stream }: SyncOf,
  { syncLogId, part }: ListedPart,
): Promise<void> {
  await despiteDeadlocks(() =>
    db.execute(sql`
      update ${recordHashes} set listed_part = null
      where integration_id = ${integrationId} and stream = ${stream ?? OWN_STREAM}
        and listed_log_id = ${syncLogId} and listed_part > ${part}`),
  )
}

/** The records that the earlier tries of a listing found unchanged, up to a part. */
export async function unchangedSoFar(
  db: Database,
  { recordHashes }: Tables,
  { integrationId, stream }: SyncOf,
  { syncLogId, part }: ListedPart,
): Promise<Pick<HashedRecord, 'eventClass' | 'externalId'>[]> {
  const rows = await db.execute<{ event_class: string; external_id: string }>(sql`
    select event_class, external_id from ${recordHashes}
    where integration_id = ${integrationId} and stream = ${stream ?? OWN_STREAM}
      and listed_log_id = ${syncLogId} and listed_part <= ${part}`)
  return rows.map(({ event_class: eventClass, external_id: externalId }) => ({ eventClass, externalId }))
}

/** What a listener is told of its item. */
export interface ItemChange {
  readonly change: RecordChange
  readonly hash: string
  /** Of what was handled last; null: nothing was, or it was erased. */
  readonly previousHash: string | null
}

/**
 * Notes that attempts of these items begin: until one succeeds, it is not known what the host has of their records. By the id of the
 * item it says what each record is.
 *
 * May be run twice: the hash of the last success stays.
 */
export async function beginRecords(
  db: Database,
  { recordHashes }: Tables,
  rows: readonly SyncItemRow[],
): Promise<ReadonlyMap<number, ItemChange>> {
  const items = rows.flatMap(({ id, integrationId, stream, eventClass, externalId, recordHash: hash }) =>
    hash === null ? [] : [{ id, integrationId, stream: stream ?? OWN_STREAM, eventClass, externalId, hash }],
  )
  if (items.length === 0) return new Map()
  const known = await despiteDeadlocks(() =>
    db.execute<{ id: string; hash: string | null; was_deleted: boolean }>(sql`
      with item as (
        select * from jsonb_to_recordset(${jsonText(items)}::jsonb)
          as i (id bigint, "integrationId" bigint, stream text, "eventClass" text, "externalId" text)
      ), begun as (
        update ${recordHashes} r set is_handled = false, updated_at = clock_timestamp() from item where ${isRecordOf} and r.is_handled
      )
      select item.id, r.hash, r.deleted_at is not null as was_deleted from item join ${recordHashes} r on ${isRecordOf}`),
  )
  const before = new Map(known.map((row) => [Number(row.id), row]))
  return new Map(
    items.map(({ id, hash }) => {
      const { hash: previousHash = null, was_deleted: wasDeleted = false } = before.get(id) ?? {}
      const change = wasDeleted ? 'reappeared' : previousHash === null ? 'added' : 'updated'
      return [id, { change, hash, previousHash }]
    }),
  )
}

const isRecordOf = sql.raw(
  'r.integration_id = item."integrationId" and r.stream = item.stream and r.external_id = item."externalId" and r.event_class = item."eventClass"',
)

/**
 * Keeps the hashes of items that succeed: a part of the statement that settles them. The record stays unhandled while a
 * later item of it is not done, which is so after the retry of an older one: that item holds the cursor, and a run can
 * make up for it only if it lists the record as an item.
 *
 * In one order, so that two batches that settle the same records wait for each other and don't lock each other out.
 */
export const keepHashes = ({ recordHashes, syncItems }: Tables): SQL => sql`
  insert into ${recordHashes} as r (integration_id, stream, event_class, external_id, hash, is_handled)
  select distinct on (integration_id, coalesce(stream, ''), external_id, event_class)
         integration_id, coalesce(stream, ''), event_class, external_id, record_hash,
         not exists (
           select 1 from ${syncItems} newer
           where newer.integration_id = settled.integration_id and newer.external_id = settled.external_id
             and newer.event_class = settled.event_class and newer.id > settled.id
             and newer.status in ('pending', 'processing', 'failed'))
  from settled where status = 'success' and record_hash is not null
  order by integration_id, coalesce(stream, ''), external_id, event_class, id desc
  on conflict (integration_id, stream, external_id, event_class) do update
  set hash = excluded.hash, is_handled = excluded.is_handled, deleted_at = null, updated_at = clock_timestamp()`

/** Notes that the provider was told of records that are gone. */
export async function noteDeleted(
  db: Database,
  { recordHashes }: Tables,
  { integrationId, stream }: SyncOf,
  externalIds: readonly string[],
): Promise<void> {
  await despiteDeadlocks(() =>
    db.execute(sql`
      update ${recordHashes} set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
      where integration_id = ${integrationId} and stream = ${stream ?? OWN_STREAM} and deleted_at is null
        and external_id in (select jsonb_array_elements_text(${jsonText(externalIds)}::jsonb))`),
  )
}

/** A record that either listing named unchanged, as a scalar: the listing has no item of it. Null: neither did. */
export function unchangedIn(
  { recordHashes }: Tables,
  { integrationId, stream, syncLogIds: [earlier, later], andSince }: SyncOf & TwoRuns,
  externalId: SQL,
): SQL {
  const isNamed = andSince
    ? sql`r.listed_log_id >= ${earlier}`
    : sql`(r.listed_log_id in (${earlier}, ${later}) or r.full_log_id in (${earlier}, ${later}))`
  return sql`(
    select r.id from ${recordHashes} r
    where r.integration_id = ${integrationId} and r.stream = ${stream ?? OWN_STREAM} and r.external_id = ${externalId}
      and ${isNamed}
    limit 1)`
}

interface TwoRuns {
  readonly syncLogIds: readonly [earlier: number, later: number]
  /** A run or backfill since the earlier one counts as well. */
  readonly andSince: boolean
}

/** That a run has listed everything of some model. @param metadata of its log */
export const isFullListing = (metadata: SQL): SQL => sql`jsonb_typeof(${metadata} -> 'full_listing') = 'object'`
