/**
 * Starts that can't begin yet: they are rows, so that none is lost, and each worker begins them.
 *
 * Rule: docs/behaviour/sync-scheduling.md, "Remembered starts". Why rows: docs/decisions/0056-remembered-starts.md.
 */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { clockNow, jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, isIntegrationsError } from '../framework/errors.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { syncSource } from '../providers/streams.ts'
import type { Tries, Wait } from './ask-rules.ts'
import { MAX_PUSHES, nextTry } from './ask-rules.ts'
import type { SyncOf } from './sync-jobs.ts'
import { namedStream, OWN_STREAM } from './sync-rows.ts'

/** One more run follows the one that lives. The first ask's moment stays. @throws IntegrationNotFound */
export async function rememberStart(
  db: Database,
  { syncStarts, integrations }: Tables,
  { integrationId: id, stream }: SyncOf,
): Promise<void> {
  const rows = await db.execute(sql`
    insert into ${syncStarts} as s (integration_id, stream, again_at)
    select id, ${stream ?? OWN_STREAM}, ${clockNow()} from ${integrations} where id = ${id}
    on conflict (integration_id, stream) do update
    set again_at = coalesce(s.again_at, excluded.again_at), updated_at = clock_timestamp()
    returning 1`)
  if (rows.length === 0) throw new IntegrationNotFound(id)
}

/**
 * One wait of a stream is kept: the latest `notBefore` counts, and each ask with a debounce moves it to its own end,
 * at most ten times the debounce after the first ask.
 *
 * @returns when the run begins
 * @throws IntegrationNotFound
 */
export async function rememberLater(
  db: Database,
  { syncStarts, integrations }: Tables,
  { integrationId: id, stream }: SyncOf,
  { notBefore, debounceSeconds }: Wait,
): Promise<Date> {
  const until = (from: SQL, times: number): SQL =>
    sql`${from} + make_interval(secs => ${(debounceSeconds ?? 0) * times}::double precision)`
  const from = sql`${notBefore?.toISOString() ?? null}::timestamptz`
  const rows = await db.execute<{ at: string }>(sql`
    insert into ${syncStarts} as s (integration_id, stream, later_at, later_since)
    select id, ${stream ?? OWN_STREAM}, greatest(${from}, ${until(clockNow(), 1)}), ${clockNow()}
    from ${integrations} where id = ${id}
    on conflict (integration_id, stream) do update
    set later_at = greatest(s.later_at, ${from},
          least(${until(clockNow(), 1)}, ${until(sql`coalesce(s.later_since, ${clockNow()})`, MAX_PUSHES)})),
        later_since = coalesce(s.later_since, excluded.later_since), updated_at = clock_timestamp()
    returning extract(epoch from later_at)::float8 * 1000 as at`)
  const [row] = rows
  if (row === undefined) throw new IntegrationNotFound(id)
  return new Date(Math.round(Number(row.at)))
}

/**
 * Takes what is due, for a run that opens in this transaction: its listing begins later than each of these asks. What waits
 * stays.
 *
 * @returns whether there was any
 */
export async function takeStarts(tx: Transaction, { syncStarts }: Tables, of: SyncOf): Promise<boolean> {
  const isOf = sql`integration_id = ${of.integrationId} and stream = ${of.stream ?? OWN_STREAM}`
  const rows = await tx.execute(sql`
    with done as (
      delete from ${syncStarts} where ${isOf} and (later_at is null or later_at <= ${clockNow()})
      returning 1),
    left_over as (
      update ${syncStarts} set again_at = null, updated_at = clock_timestamp()
      where ${isOf} and later_at > ${clockNow()} and again_at is not null
      returning 1)
    select 1 from done union all select 1 from left_over`)
  return rows.length > 0
}

/** Forgets what was asked of a stream. */
export async function forgetStarts(db: Database, { syncStarts }: Tables, of: SyncOf): Promise<void> {
  await db.execute(
    sql`delete from ${syncStarts} where integration_id = ${of.integrationId} and stream = ${of.stream ?? OWN_STREAM}`,
  )
}

/**
 * Forgets what was asked of integrations that are switched off. Their rows are locked meanwhile: what is asked after an
 * integration was switched on again stays.
 */
async function forgetSwitchedOff(db: Database, { syncStarts, integrations }: Tables) {
  return db.execute<{ id: string; provider: string }>(sql`
    with off as (
      select i.id, i.provider from ${integrations} i
      where i.id in (select integration_id from ${syncStarts})
        and (not i.is_active or i.switched_off_at is not null or i.health_status = 'disabled')
      for share)
    delete from ${syncStarts} s using off where s.integration_id = off.id
    returning off.id, off.provider`)
}

/**
 * A start of a stream that its provider does not declare is kept this long after it is due: while a release rolls out,
 * a worker of the former one does not know the new streams.
 */
const UNDECLARED_KEPT = sql.raw("interval '1 day'")

/** Of one look; where there are more, the next look goes on behind them. */
const MAX_REMEMBERED = 5_000

/** The last row of a look. */
interface LookedTo {
  readonly askedAt: string
  readonly id: number
  readonly stream: string | null
}

/**
 * The longest due first; whether the newest run of each is open. This runs each second, so each of the two look-ups
 * has an index. A provider has `sync()` or streams: the newest run of an integration with a start of its own is its
 * own.
 *
 * @param providers of this process: the starts of others are other workers'
 * @param after null: from the beginning
 */
async function dueStarts(
  db: Database,
  { syncStarts, integrations, logs }: Tables,
  providers: readonly string[],
  after: LookedTo | null,
) {
  const asked = sql`least(s.again_at, s.later_at)`
  const isBehind =
    after === null
      ? sql`true`
      : sql`(${asked}, i.id, s.stream)
          > (${after.askedAt}::timestamptz, ${after.id}::bigint, ${after.stream ?? OWN_STREAM})`
  const rows = await db.execute<DueStart>(sql`
    select i.id, i.provider, s.stream, ${asked}::text as "askedAt",
      ${asked} < ${clockNow()} - ${UNDECLARED_KEPT} as "isOld",
      coalesce(case when s.stream = ${OWN_STREAM}
      then (select l.status = 'processing' and l.stream is null from ${logs} l
        where l.integration_id = i.id and l.operation = 'sync' order by l.id desc limit 1)
      else (select l.status = 'processing' from ${logs} l
        where l.integration_id = i.id and l.stream = s.stream and l.operation = 'sync' order by l.id desc limit 1)
      end, false) as "isOpen"
    from ${syncStarts} s join ${integrations} i on i.id = s.integration_id
    where (s.again_at is not null or s.later_at <= ${clockNow()}) and ${isBehind}
      and i.provider in (select jsonb_array_elements_text(${jsonText(providers)}::jsonb))
    order by ${asked}, i.id, s.stream limit ${MAX_REMEMBERED}`)
  return rows.map(({ id, provider, stream, askedAt, isOpen, isOld }) => ({
    ...{ id: Number(id), provider, stream: stream || null, isOld },
    of: { askedAt, isOpen },
  }))
}

interface DueStart extends Record<string, unknown> {
  readonly id: string
  readonly provider: string
  readonly stream: string
  readonly askedAt: string
  readonly isOpen: boolean
  /** It has been due for longer than {@link UNDECLARED_KEPT}. */
  readonly isOld: boolean
}

const MAX_TRIES = 100
/** By the process's clock; 0: it has not been tried. */
const dueAt = ({ before, next }: { readonly before: Tries | null; readonly next: Tries }): number =>
  next.count === 1 ? 0 : (before?.nextAt ?? 0)

/**
 * Looks for remembered starts, again and again, and begins those that can. Harmless in several processes at once: a
 * run's id refuses a second start, and a run that finds nothing remembered does not open.
 *
 * A first try comes first, then what has been due for longest. A start stays while a pause keeps it from beginning, and
 * thousands of these keep no other one from its turn.
 *
 * @returns one look. @throws BackendUnreachable, what Postgres says
 */
export function rememberedStarts(framework: Framework): (now: number) => Promise<void> {
  const { db, tables, providers, workflows } = framework
  /** As of the last time that all were looked at. */
  let tried = new Map<string, Tries>()
  let seen = new Map<string, Tries>()
  let after: LookedTo | null = null
  return async (now) => {
    for (const { id, provider } of await forgetSwitchedOff(db, tables))
      integrationLogger(framework, { id: Number(id), provider }).info(
        { event: 'sync.start_forgotten' },
        'a sync that was asked for is forgotten: its integration was switched off',
      )
    const found = await dueStarts(db, tables, providers.keys(), after)
    const isDeclared = ({ provider: key, stream }: (typeof found)[number]): boolean => {
      const provider = providers.find(key)
      return provider !== null && syncSource(provider, stream) !== null
    }
    for (const row of found) {
      if (!row.isOld || isDeclared(row)) continue
      await forgetStarts(db, tables, { integrationId: row.id, stream: row.stream })
      integrationLogger(framework, row).info(
        { event: 'sync.start_forgotten' },
        'a sync that was asked for is forgotten: its provider no longer has this stream',
      )
    }
    const looks = found.flatMap((row) => {
      if (!isDeclared(row)) return []
      const key = `${row.id}:${row.stream ?? OWN_STREAM}`
      const before = tried.get(key) ?? null
      return [{ row, key, before, ...nextTry(before, row.of, now) }]
    })
    for (const { key, tries, next } of looks) if (!tries) seen.set(key, next)
    const due = looks.filter(({ tries }) => tries).sort((a, b) => dueAt(a) - dueAt(b))
    // What is left over stands as it stood, and comes the sooner in the next look.
    for (const { key, before } of due.splice(MAX_TRIES)) if (before !== null) seen.set(key, before)
    for (const { row, key, next } of due) {
      seen.set(key, next)
      try {
        await workflows.startSync(row.id, row.provider, { onlyIfAsked: true, ...namedStream(row.stream) })
      } catch (error) {
        // The other starts would meet the same.
        if (isIntegrationsError(error, 'backend_unreachable')) throw error
        integrationLogger(framework, row).error(
          { event: 'sync.remembered_refused', error: errorLine(error, 500) },
          'a run that was asked for could not be started; it is tried again',
        )
      }
    }
    const last = found.length < MAX_REMEMBERED ? undefined : found.at(-1)
    after = last === undefined ? null : { askedAt: last.of.askedAt, id: last.id, stream: last.stream }
    if (after !== null) return
    tried = seen
    seen = new Map()
  }
}
