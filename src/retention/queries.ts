/**
 * Statements that delete rows beyond their retention. Each walks along the index over its moments from where the last one ended,
 * since deleted rows stay in the index for a while.
 *
 * Rule: docs/behaviour/pruning.md.
 */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import { functionNamed } from '../db/sql-functions.ts'
import { WIDEST_SECONDS } from '../rollups/rollup-rules.ts'
import type { PruningStep } from './rules.ts'

/** A step that deletes rows. */
export type DeletingStep = Exclude<PruningStep, 'incidents_closed'> | 'written_records' | 'rollups' | 'deliveries'

/** Position of a walk: moment and id of its last row, as Postgres writes them. */
export interface Position {
  readonly at: string
  readonly id: string
}

export interface Pruned {
  readonly rows: number
  /** Where the next chunk starts; null: this was the last. */
  readonly next: Position | null
}

/** Which rows of a table, called `t`, may be deleted. */
interface Prunable {
  readonly table: Tables[keyof Tables]
  readonly key: SQL
  /** The moment that its age is counted from. */
  readonly at: SQL
  readonly where: SQL
  /** A condition that the deletion itself judges, once the rows are locked. */
  readonly goes: SQL
}

const EVERY = sql`true`

/**
 * Rows that other rows still need stay, however old. A scalar query with a limit goes once per row by its index; as `not exists`
 * it would become a join that reads the other table again for each chunk.
 */
function prunable(tables: Tables, step: DeletingStep): Prunable {
  const rules: Readonly<Record<DeletingStep, Pick<Prunable, 'table'> & Partial<Prunable>>> = {
    requests: { table: tables.requests },
    logs: { table: tables.logs, where: logMayGo(tables) },
    idempotency_keys: { table: tables.idempotencyKeys },
    // One that loops keeps an incident open.
    written_records: { table: tables.writtenRecords, at: sql.raw('updated_at'), where: sql`t.looping_since is null` },
    sync_items: {
      table: tables.syncItems,
      at: sql.raw('completed_at'),
      where: sql`t.status in ('success', 'skipped') and ${hasNoLivingRun(tables, sql`t`)}`,
      goes: sql`not ${isNeeded(tables)}`,
    },
    incidents: { table: tables.incidents, at: sql.raw('closed_at'), where: sql`t.status = 'closed'` },
    // The widest: narrower ones go as new ones are made.
    rollups: {
      table: tables.rollups,
      at: sql.raw('starts_at'),
      where: sql`t.seconds = ${sql.raw(String(WIDEST_SECONDS))}`,
    },
    cache: { table: tables.cache, key: sql.raw('key'), at: sql.raw('expires_at') },
    events: { table: tables.events, at: sql.raw('delivered_at') },
    audit: { table: tables.audit, where: sql`not ${isStandingPause(tables)}` },
    // With its last part.
    deliveries: {
      table: tables.deliveries,
      where: sql`(select w.id from ${tables.webhooks} w where w.part_of = t.id limit 1) is null`,
    },
    webhooks: { table: tables.webhooks, where: sql`t.status in ('processed', 'failed')` },
  }
  return { key: sql.raw('id'), at: sql.raw('created_at'), where: EVERY, goes: EVERY, ...rules[step] }
}

/** A pause that no later act on the same streams has ended: lists say from it that a sync is paused, and by whom. */
function isStandingPause({ audit, integrations }: Tables): SQL {
  const stream = (action: SQL) => sql`substring(${action} from ' --stream (.+)$')`
  return sql`(split_part(t.action, ' ', 1) = 'pause'
    and (select i.id from ${integrations} i where i.id = t.integration_id) is not null
    and (
      select later.id from ${audit} later
      where later.integration_id = t.integration_id and later.id > t.id
        and split_part(later.action, ' ', 1) in ('pause', 'resume', 'cancel', 'cursor', 'erase')
        and ${stream(sql`later.action`)} is not distinct from ${stream(sql`t.action`)}
      limit 1) is null)`
}

/** The run of an item called so has ended; without a log it was pruned since. */
function hasNoLivingRun({ logs }: Tables, item: SQL): SQL {
  return sql`(
    select l.id from ${logs} l
    where l.id = ${item}.sync_log_id and l.operation in ('sync', 'backfill') and l.status = 'processing'
  ) is null`
}

/**
 * Not of a run that lives, or that has items to be looked after. Not a cursor set by hand, as long as a run stays that began
 * before it and may end after it: that run must not move the cursor. Not the mark up to which an integration's deliveries are
 * known, where no later one is.
 */
function logMayGo({ logs, syncItems }: Tables): SQL {
  const unfinished = (log: SQL) => sql`(
    ${log}.status = 'processing' or (
      select i.id from ${syncItems} i
      where i.sync_log_id = ${log}.id and i.status in ('pending', 'processing', 'failed') limit 1
    ) is not null)`
  return sql`(t.operation not in ('sync', 'backfill') or not ${unfinished(sql`t`)})
    and (t.operation <> 'cursor' or (
      select run.id from ${logs} run
      where run.integration_id = t.integration_id and run.operation = 'sync' and run.id < t.id and ${unfinished(sql`run`)}
      limit 1) is null)
    and (t.operation <> 'webhook_reconcile' or t.status <> 'success' or t.metadata ->> 'mark' is null or (
      select later.id from ${logs} later
      where later.integration_id = t.integration_id and later.operation = 'webhook_reconcile' and later.id > t.id
        and later.status = 'success' and later.metadata ->> 'mark' is not null
      limit 1) is not null)`
}

export interface ChunkInput {
  /** ISO 8601: what is strictly older goes. */
  readonly before: string
  readonly after: Position | null
  readonly limit: number
  /** Of webhooks: their index is by integration. */
  readonly integrationId?: number
}

/**
 * Deletes the next rows of a step, in the transaction that counts them. Locked rows are passed over: a later run takes them.
 * Where more rows refer to them than the limit, it clears references alone, and the next chunk starts at the same place.
 */
export async function pruneChunk(
  tx: Transaction,
  tables: Tables,
  step: DeletingStep,
  input: ChunkInput,
): Promise<Pruned> {
  const { table, key, at } = prunable(tables, step)
  // Postgres expects as many items of each log as of the others: a read of the whole table would soon find as many as
  // the limit. Most logs that go have none left, so it would be read to its end.
  if (referencesTo(tables)[step] !== undefined) await tx.execute(sql`select set_config('enable_seqscan', 'off', true)`)
  if (step === 'webhooks' || step === 'deliveries' || step === 'logs') return pruneLooked(tx, tables, step, input)
  const found = await tx.execute<{ id: string; at: string }>(sql`
    select t.${key}::text as id, t.${at}::text as at from ${table} t
    where ${isDue(tables, step, input.before)} and ${isBehind(tables, step, input.after)}
    order by t.${at}, t.${key} limit ${input.limit} for update of t skip locked`)
  const [first] = found
  const last = found.at(-1)
  if (first === undefined || last === undefined) return { rows: 0, next: null }
  const ids = found.map(({ id }) => id)
  if (!(await forget(tx, tables, step, ids, input.limit)))
    return { rows: 0, next: { at: first.at, id: String(BigInt(first.id) - 1n) } }
  const rows = await deleteRows(tx, tables, step, ids)
  return { rows, next: found.length < input.limit ? null : { id: last.id, at: last.at } }
}

/**
 * Looks at the next `limit` rows, of webhooks those of an integration, also at those that stay. Millions may: webhooks wait while
 * health has disabled their integration, and a failed item keeps its log. A look for as many to delete would read all of them
 * in a statement.
 */
async function pruneLooked(
  tx: Transaction,
  tables: Tables,
  step: 'webhooks' | 'deliveries' | 'logs',
  input: ChunkInput,
): Promise<Pruned> {
  const { before, integrationId, after, limit } = input
  const { table } = prunable(tables, step)
  const own = integrationId === undefined ? EVERY : sql`t.integration_id = ${integrationId}`
  const [looked] = await tx.execute<{ rows: number; due: string[]; id: string; at: string }>(sql`
    with looked as materialized (
      select t.id, t.created_at from ${table} t
      where ${own} and t.created_at < ${before}::timestamptz and ${isBehind(tables, step, after)}
      order by t.created_at, t.id limit ${limit}
    ), due as (
      select t.id from ${table} t
      where t.id = any(array(select id from looked)) and ${isDue(tables, step, before)}
      for update of t skip locked
    )
    select (select count(*)::int from looked) as rows, (select coalesce(json_agg(id::text), '[]') from due) as due,
      id::text as id, created_at::text as at
    from looked order by looked.created_at desc, looked.id desc limit 1`)
  if (looked === undefined) return { rows: 0, next: null }
  const next = looked.rows < limit ? null : { id: looked.id, at: looked.at }
  if (looked.due.length === 0) return { rows: 0, next }
  if (!(await forget(tx, tables, step, looked.due, limit))) return { rows: 0, next: after ?? BEGINNING }
  return { rows: await deleteRows(tx, tables, step, looked.due), next }
}

/** Before all rows that are walked by moment and a number. */
const BEGINNING: Position = { at: '-infinity', id: '0' }

/**
 * Blanks what was delivered with settled webhooks, or with deliveries all of whose webhooks are blank.
 *
 * @returns how many rows were blanked, and where the next look starts
 */
export async function blankChunk(
  tx: Transaction,
  tables: Tables,
  name: 'webhooks' | 'deliveries',
  { before, after, limit, integrationId }: ChunkInput,
): Promise<Pruned> {
  const moment = sql`${before}::timestamptz`
  const isDone =
    name === 'webhooks'
      ? sql`t.processed_at < ${moment} and t.status in ('processed', 'failed')`
      : sql`(
          select w.id from ${tables.webhooks} w
          where w.part_of = t.id and not (w.payload = '' and w.headers = '{}'::jsonb) limit 1
        ) is null`
  const blanking: Change = {
    which: sql`not (t.payload = '' and t.headers = '{}'::jsonb) and ${isDone}`,
    lock: sql`for update of t skip locked`,
    change: sql`
      update ${tables[name]} t set payload = '', headers = '{}'::jsonb where t.id = any(array(select id from chunk))`,
  }
  const walk: Walk = { rows: sql`t.created_at < ${moment}`, at: 'created_at' }
  return changeChunk(tx, tables[name], blanking, { integrationId, walk, after, limit })
}

/** Rows of a table that are walked one after the other. */
export interface Walk {
  /** Which ones, called `t`. */
  readonly rows: SQL
  /** In whose order, then by id: the column that leads an index, behind the integration where there is one. */
  readonly at: 'created_at' | 'id'
}

export interface Change {
  /** Which of the rows, called `t`; default: all. */
  readonly which?: SQL
  /** How the rows are locked. */
  readonly lock: SQL
  /** The statement over the rows of `chunk`, up to its `returning`. */
  readonly change: SQL
}

interface Look {
  /** Undefined: rows of all integrations. */
  readonly integrationId: number | undefined
  readonly walk: Walk
  readonly after: Position | null
  readonly limit: number
}

/**
 * Looks at the next `limit` rows, also at those that stay as they are: to look for as many rows to change could read
 * millions of others first, beyond the time limit of a statement.
 *
 * @returns how many rows were changed, and where the next look starts
 */
export async function changeChunk(
  db: Database | Transaction,
  table: PgTable,
  { which = EVERY, lock, change }: Change,
  { integrationId, walk, after, limit }: Look,
): Promise<Pruned> {
  const at = sql.raw(walk.at)
  const own = integrationId === undefined ? EVERY : sql`t.integration_id = ${integrationId}`
  const [looked] = await db.execute<{ rows: number; changed: number; id: string; at: string }>(sql`
    with looked as materialized (
      select t.id, t.${at} as at from ${table} t
      where ${own} and ${walk.rows} and ${isBehindInWalk(walk, after)}
      order by t.${at}, t.id limit ${limit}
    ), chunk as (
      select t.id from ${table} t where t.id = any(array(select id from looked)) and (${which}) order by t.id ${lock}
    ), changed as (${change} returning t.id)
    select (select count(*)::int from looked) as rows, (select count(*)::int from changed) as changed,
      looked.id::text as id, looked.at::text as at
    from looked order by looked.at desc, looked.id desc limit 1`)
  if (looked === undefined) return { rows: 0, next: null }
  return { rows: looked.changed, next: looked.rows < limit ? null : { id: looked.id, at: looked.at } }
}

function isBehindInWalk({ at }: Walk, after: Position | null): SQL {
  if (after === null) return EVERY
  const { id, at: moment } = after
  if (at === 'id') return sql`t.id > ${id}::bigint`
  return sql`t.created_at >= ${moment}::timestamptz
    and (t.created_at > ${moment}::timestamptz or t.id > ${id}::bigint)`
}

/** How many rows a step would delete now. */
export async function countPrunable(db: Database, tables: Tables, step: DeletingStep, before: string): Promise<number> {
  const { table, goes } = prunable(tables, step)
  const rows = await numberOf(
    db,
    sql`select count(*)::text as number from ${table} t where ${isDue(tables, step, before)} and ${goes}`,
  )
  return step === 'sync_items' ? rows + (await countResolved(db, tables, before)) : rows
}

/**
 * The oldest row that a step would delete now: the moment that its age is counted from; null: there is none. For webhooks it is
 * when the row was last changed, which has an index over all integrations.
 */
export async function oldestPrunable(
  db: Database,
  tables: Tables,
  step: DeletingStep,
  before: string,
): Promise<Date | null> {
  const { table, at, goes } = prunable(tables, step)
  const oldest =
    step === 'webhooks'
      ? sql`
    select min(oldest.at) as at
    from unnest(array['processed', 'failed']) settled (status)
    cross join lateral (
      select w.updated_at as at from ${tables.webhooks} w
      where w.status = settled.status and w.updated_at < ${before}::timestamptz order by w.updated_at limit 1
    ) oldest`
      : sql`
    select t.${at} as at from ${table} t
    where ${isDue(tables, step, before)} and ${goes} order by t.${at} limit 1`
  const [row] = await db.execute<{ at: string | Date | null }>(oldest)
  return row?.at == null ? null : new Date(row.at)
}

function isDue(tables: Tables, step: DeletingStep, before: string): SQL {
  const { at, where } = prunable(tables, step)
  const moment = sql`${before}::timestamptz`
  // The index has only the creation, which comes before the processing.
  const due =
    step === 'webhooks' ? sql`t.created_at < ${moment} and t.processed_at < ${moment}` : sql`t.${at} < ${moment}`
  return sql`${due} and ${where}`
}

/** The first half leads the index, the second tells rows of the same moment apart. */
function isBehind(tables: Tables, step: DeletingStep, after: Position | null): SQL {
  if (after === null) return EVERY
  const { at, key } = prunable(tables, step)
  const id = step === 'cache' ? sql`${after.id}::text` : sql`${after.id}::bigint`
  const moment = sql`${after.at}::timestamptz`
  return sql`t.${at} >= ${moment} and (t.${at} > ${moment} or t.${key} > ${id})`
}

/** Deletes locked rows and the rows that go with them. @returns how many */
async function deleteRows(
  tx: Transaction,
  tables: Tables,
  step: DeletingStep,
  ids: readonly string[],
): Promise<number> {
  const { table, key } = prunable(tables, step)
  if (step === 'sync_items') return deleteItems(tx, tables, ids)
  const gone = await tx.execute(sql`delete from ${table} t where t.${key} = any(${listOf(ids, step)}) returning 1`)
  return gone.length
}

/** Columns that refer to a step's rows. The foreign key of items would clear those of a whole chunk in one statement. */
const referencesTo = ({ requests, logs, syncItems }: Tables): Partial<Record<DeletingStep, readonly Reference[]>> => ({
  requests: [{ table: requests, column: sql.raw('retry_of') }],
  logs: [
    { table: logs, column: sql.raw('parent_id') },
    { table: syncItems, column: sql.raw('sync_log_id') },
  ],
})

interface Reference {
  readonly table: PgTable
  readonly column: SQL
}

/**
 * Rows that stay no longer point at rows that go. A log may have a million parts or items.
 *
 * @param limit rows that are cleared at most, of each column
 * @returns false: more of them may point there
 */
async function forget(
  tx: Transaction,
  tables: Tables,
  step: DeletingStep,
  ids: readonly string[],
  limit: number,
): Promise<boolean> {
  const list = listOf(ids, step)
  for (const { table, column } of referencesTo(tables)[step] ?? []) {
    const stays = table === prunable(tables, step).table ? sql`t.id <> all(${list})` : EVERY
    const cleared = await tx.execute(sql`
      with pointing as (select t.id from ${table} t where t.${column} = any(${list}) and ${stays} limit ${limit})
      update ${table} t set ${column} = null, updated_at = clock_timestamp()
      from pointing where t.id = pointing.id returning 1`)
    if (cleared.length >= limit) return false
  }
  return true
}

function listOf(ids: readonly string[], step: DeletingStep): SQL {
  const texts = sql`select e from jsonb_array_elements_text(${jsonText(ids)}::jsonb) e`
  return step === 'cache' ? sql`array(${texts})` : sql`array(${texts})::bigint[]`
}

/**
 * Whether an earlier item of the same external id still needs the completed item called `t`. One that failed and is of the same
 * class goes with it; one that is not done yet may still fail; and one of another class counts the runs it failed in from `t` on
 * (`stuckItems` in syncs/end-queries.ts).
 */
function isNeeded(tables: Tables): SQL {
  const { syncItems } = tables
  return sql`exists (
    select 1 from ${syncItems} e
    where e.integration_id = t.integration_id and e.external_id = t.external_id and e.id < t.id
      and e.status in ('pending', 'processing', 'failed')
      and not (e.status = 'failed' and e.event_class = t.event_class and ${hasNoLivingRun(tables, sql`e`)}))`
}

/**
 * Completed items, and the failed ones that they made up for: without the completed one such a row would hold the cursor again.
 *
 * A failed row that is locked by another transaction keeps its completed one, too. Completed rows never change again, so only
 * rows that are neither completed nor locked here can.
 */
async function deleteItems(tx: Transaction, tables: Tables, ids: readonly string[]): Promise<number> {
  const { syncItems } = tables
  const found = async (statement: SQL): Promise<SQL> => {
    const rows = await tx.execute<{ id: string }>(statement)
    return listOf(
      rows.map(({ id }) => id),
      'sync_items',
    )
  }
  const completed = listOf(ids, 'sync_items')
  const undone = undoneBeside(tables, completed)
  const failed = await found(sql`
    select f.id::text as id from ${syncItems} f
    where f.id in (select e.id from ${undone} e where e.status = 'failed') and f.status = 'failed'
      and ${hasNoLivingRun(tables, sql`f`)}
    order by f.id for update of f skip locked`)
  // Judged once the rows are locked.
  const going = await found(sql`
    with undone as materialized (select * from ${undone} e)
    select t.id::text as id from ${syncItems} t
    where t.id = any(${completed}) and not exists (
      select 1 from undone e
      where e.integration_id = t.integration_id and e.external_id = t.external_id and e.id < t.id
        and not (e.event_class = t.event_class and e.id = any(${failed})))`)
  const gone = await tx.execute(sql`
    with completed as (
      select id, integration_id, external_id, event_class from ${syncItems} where id = any(${going})
    ), going as (
      select id from completed
      union
      select f.id from ${syncItems} f
      join completed t using (integration_id, external_id, event_class)
      where f.id = any(${failed}) and f.id < t.id
    )
    delete from ${syncItems} t using going where t.id = going.id returning 1`)
  return gone.length
}

/**
 * Items with the external id of one of these that are not done. Each external id is looked up once, however many of the rows
 * have it, and by its index: a join could read the whole table for each chunk.
 */
function undoneBeside({ syncItems }: Tables, ids: SQL): SQL {
  return sql`(
    select e.* from (
      select distinct integration_id, external_id from ${syncItems} where id = any(${ids}) and external_id is not null
    ) pair
    cross join lateral (
      select e.id, e.integration_id, e.external_id, e.event_class, e.status from ${syncItems} e
      where e.integration_id = pair.integration_id and e.external_id = pair.external_id
        and e.status in ('pending', 'processing', 'failed')
      offset 0
    ) e)`
}

/** Failed items that would go with the completed ones that made up for them. */
async function countResolved(db: Database, tables: Tables, before: string): Promise<number> {
  const statement = sql`
    select count(*)::text as number from ${tables.syncItems} f
    where f.status = 'failed' and ${hasNoLivingRun(tables, sql`f`)} and exists (
      select 1 from ${tables.syncItems} t
      where t.integration_id = f.integration_id and t.external_id = f.external_id and t.event_class = f.event_class
        and t.id > f.id and ${isDue(tables, 'sync_items', before)} and not ${isNeeded(tables)})`
  return numberOf(db, statement)
}

/** The next integrations that have webhooks of before, whether they are to be deleted or wait, by ascending id. */
export async function integrationsToPrune(
  db: Database,
  tables: Tables,
  { before, afterId, limit }: { readonly before: string; readonly afterId: number; readonly limit: number },
): Promise<number[]> {
  const rows = await db.execute<{ id: string }>(sql`
    select i.id from ${tables.integrations} i
    where i.id > ${afterId} and (
      select t.id from ${tables.webhooks} t
      where t.integration_id = i.id and t.created_at < ${before}::timestamptz limit 1) is not null
    order by i.id limit ${limit}`)
  return rows.map(({ id }) => Number(id))
}

/** The next open incidents that are older, by ascending id. */
export async function incidentsOpenSince(
  db: Database,
  { incidents }: Tables,
  { before, afterId, limit }: { readonly before: string; readonly afterId: number; readonly limit: number },
): Promise<{ id: number; integrationId: number }[]> {
  const rows = await db.execute<{ id: string; integration_id: string }>(sql`
    select id, integration_id from ${incidents}
    where status = 'open' and opened_at < ${before}::timestamptz and id > ${afterId}
    order by id limit ${limit}`)
  return rows.map((row) => ({ id: Number(row.id), integrationId: Number(row.integration_id) }))
}

/** Where the breakers of all integrations are stored, and the cooldown after which an open one's next call is a probe. */
interface BreakerRead {
  /** The keys of the integrations' shared state, before and after the id. */
  readonly aroundId: readonly [string, string]
  readonly cooldownSeconds: number
}

/**
 * How many open incidents would be closed now: those of integrations with which all is well.
 *
 * @param breaker null: breakers are off
 */
export async function countClosable(
  db: Database,
  tables: Tables,
  { before, nowMs, breaker }: { readonly before: string; readonly nowMs: number; readonly breaker: BreakerRead | null },
): Promise<number> {
  const { incidents, integrations, cache } = tables
  const isBreakerWell =
    breaker === null
      ? EVERY
      : sql`${functionNamed(tables, 'is_breaker_well')}((
          select c.value -> 'breaker' from ${cache} c
          where c.key = ${breaker.aroundId[0]}::text || i.id || ${breaker.aroundId[1]}::text),
          ${breaker.cooldownSeconds}::bigint, ${Math.floor(nowMs)}::bigint)`
  const statement = sql`
    select count(*)::text as number from ${incidents} o join ${integrations} i on i.id = o.integration_id
    where o.status = 'open' and o.opened_at < ${before}::timestamptz
      and ${functionNamed(tables, 'is_integration_well')}(i.id, i.health_status) and ${isBreakerWell}`
  return numberOf(db, statement)
}

/** The one number that a statement selects as `number`. 0: it selects no row. */
async function numberOf(db: Database | Transaction, statement: SQL): Promise<number> {
  const [row] = await db.execute<{ number: string }>(statement)
  return Number(row?.number ?? 0)
}

/** Adds to what a run has counted. In the transaction of the rows that it counts, so that no crash parts them. */
export async function addToCount(
  tx: Transaction,
  { cache }: Tables,
  { key, rows, expiresAt }: { readonly key: string; readonly rows: number; readonly expiresAt: string },
): Promise<void> {
  await tx.execute(sql`
    insert into ${cache} as c (key, value, expires_at)
    values (${key}, ${jsonText(rows)}::jsonb, ${expiresAt}::timestamptz)
    on conflict (key) do update
    set value = to_jsonb((c.value #>> '{}')::bigint + ${rows}), expires_at = excluded.expires_at,
        updated_at = clock_timestamp()`)
}

export async function readCount(db: Database, { cache }: Tables, key: string): Promise<number> {
  return numberOf(db, sql`select value #>> '{}' as number from ${cache} where key = ${key}`)
}
