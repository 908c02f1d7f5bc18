/**
 * What we wrote last to each record. Each statement is atomic over the record's row; docs/behaviour/echoes.md has the table of what may
 * come in between.
 */
import { sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Arrival } from '../providers/arrival.ts'
import type { HashedRecord } from './told-record.ts'

/** A write under way. */
export interface Write {
  readonly integrationId: number
  /** UUID. */
  readonly id: string
  /** Null: the answer tells it. */
  readonly key: string | null
}

/** How many writes within how many seconds are a loop, where each answers an arrival of the same record. */
export interface LoopRule {
  readonly writes: number
  readonly windowSeconds: number
}

/** A creation that began longer ago has failed. No call takes this long, so no later note of its write can come. */
const LONGEST_CREATION = sql`interval '1 day'`

/**
 * Notes that a write begins: what the record says is not known until its answer. It comes before the call, so that no arrival that
 * the call causes, or that overtakes its answer, goes unnoticed.
 *
 * @returns whether the record's writes are a loop now, and were none before
 */
export async function beginWrite(
  db: Database,
  { writtenRecords }: Tables,
  { integrationId, id, key }: Write,
  arrival: Arrival | null,
  { writes, windowSeconds }: LoopRule,
): Promise<{ readonly isNewLoop: boolean }> {
  const [row] = await db.execute<{ loops: boolean | null }>(sql`
    insert into ${writtenRecords} as r (integration_id, key, writing, is_new, arrival, updated_at)
    values (${integrationId}, ${key ?? id}, ${id}::uuid, ${key === null}, ${arrival?.ref ?? null}, clock_timestamp())
    on conflict (integration_id, key) do update
    set hash = null, writing = excluded.writing, arrival = excluded.arrival, is_answered = false, updated_at = excluded.updated_at,
        answers = case when r.is_answered or ${arrival?.isOwn === true}
          then (r.answers || excluded.updated_at)[greatest(1, cardinality(r.answers) + 2 - ${writes}::int):] else r.answers end
    returning looping_since is null and cardinality(answers) >= ${writes}::int
      and answers[1] >= clock_timestamp() - make_interval(secs => ${windowSeconds}::int) as loops`)
  return { isNewLoop: row?.loops === true }
}

/** Notes what the record says by the write's answer, unless a newer write has begun or something foreign came in between. */
export async function noteWrite(
  db: Database,
  { writtenRecords }: Tables,
  { integrationId, id, key }: Write,
  told: HashedRecord,
  requestId: number | null,
): Promise<void> {
  const now = sql`clock_timestamp()`
  if (key !== null) {
    await db.execute(sql`
      update ${writtenRecords} set hash = ${told.hash}, writing = null, request_id = ${requestId}, updated_at = ${now}
      where integration_id = ${integrationId} and key = ${key} and writing = ${id}::uuid`)
    return
  }
  // A row of that key is there already where something came of the record in between, or where it was no creation: the provider has
  // updated a record that we had written before. What that write has left is no longer what the record says.
  await db.execute(sql`
    with begun as (
      delete from ${writtenRecords} where integration_id = ${integrationId} and key = ${id}
      returning arrival, created_at
    )
    insert into ${writtenRecords} as r (integration_id, key, hash, request_id, arrival, updated_at)
    select ${integrationId}, ${told.key}, ${told.hash}, ${requestId}, arrival, ${now} from begun
    where created_at > ${now} - ${LONGEST_CREATION}
    on conflict (integration_id, key) do update set hash = null, writing = null, updated_at = excluded.updated_at
    where r.hash is not null or r.writing is not null`)
}

/** The write is over, and what it has left is not known. */
export async function forgetWrite(
  db: Database,
  { writtenRecords }: Tables,
  { integrationId, id, key }: Write,
): Promise<void> {
  await db.execute(
    key === null
      ? sql`delete from ${writtenRecords} where integration_id = ${integrationId} and key = ${id}`
      : sql`update ${writtenRecords} set writing = null, updated_at = clock_timestamp()
            where integration_id = ${integrationId} and key = ${key} and writing = ${id}::uuid`,
  )
}

/**
 * Whether an arrival says what the newest write has left. If not, it is foreign: the write is forgotten, also one under way. While
 * records are being created, a foreign arrival leaves its key behind, since each of them may be of that key.
 *
 * @param mayBeOwn false: foreign in any case
 */
export async function hear(
  db: Database,
  { writtenRecords }: Tables,
  integrationId: number,
  { key, hash }: HashedRecord,
  mayBeOwn: boolean,
): Promise<boolean> {
  const [row] = await db.execute<{ own: boolean }>(sql`
    with known as materialized (
      select hash from ${writtenRecords} where integration_id = ${integrationId} and key = ${key}
    ), own as materialized (
      select 1 from known where hash = ${hash} and ${mayBeOwn}
    ), forgotten as (
      insert into ${writtenRecords} as r (integration_id, key, is_answered, updated_at)
      select ${integrationId}, ${key}, true, clock_timestamp()
      where not exists (select from own) and (exists (select from known) or exists (
        select from ${writtenRecords} n where n.integration_id = ${integrationId} and n.is_new
          and n.created_at > clock_timestamp() - ${LONGEST_CREATION}))
      on conflict (integration_id, key) do update
      set hash = null, writing = null, is_answered = true, updated_at = excluded.updated_at
      where r.hash is not null or r.writing is not null or not r.is_answered
    )
    select exists (select from own) as own`)
  return row?.own === true
}

/** A foreign arrival has been handled: writes that others made meanwhile are forgotten, since the handler did not know of them. */
export async function heard(
  db: Database,
  { writtenRecords }: Tables,
  integrationId: number,
  key: string,
  { ref }: Arrival,
): Promise<void> {
  await db.execute(sql`
    update ${writtenRecords} set hash = null, writing = null, updated_at = clock_timestamp()
    where integration_id = ${integrationId} and key = ${key} and arrival is distinct from ${ref}
      and (hash is not null or writing is not null)`)
}

/** Marks loops: those of a record where they are new. False: another process did. */
export async function markLoop(
  tx: Transaction,
  { writtenRecords }: Tables,
  integrationId: number,
  key: string,
): Promise<boolean> {
  const rows = await tx.execute(sql`
    update ${writtenRecords} set looping_since = clock_timestamp()
    where integration_id = ${integrationId} and key = ${key} and looping_since is null returning 1`)
  return rows.length > 0
}

/** Takes the mark from loops whose last write is older than the window. @returns their integrations */
export async function unmarkLoops(
  tx: Transaction,
  { writtenRecords, integrations }: Tables,
  { windowSeconds }: Pick<LoopRule, 'windowSeconds'>,
  limit: number,
): Promise<number[]> {
  const rows = await tx.execute<{ id: string }>(sql`
    with over as (
      select r.id from ${writtenRecords} r join ${integrations} i on i.id = r.integration_id
      where r.looping_since is not null
        and r.answers[cardinality(r.answers)] < clock_timestamp() - make_interval(secs => ${windowSeconds}::int)
      order by i.id, r.id limit ${limit} for no key update of i skip locked
    )
    update ${writtenRecords} r set looping_since = null from over where r.id = over.id returning r.integration_id as id`)
  return [...new Set(rows.map(({ id }) => Number(id)))]
}
