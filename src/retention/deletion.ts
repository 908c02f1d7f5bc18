/** Removes an integration with all its rows. Rule: docs/behaviour/integrations.md, "Deletion". */
import type { SQL } from 'drizzle-orm'
import { eq, sql } from 'drizzle-orm'
import { integrationKey } from '../cache/integration-keys.ts'
import { endLease } from '../calls/admission/call-state.ts'
import type { Database, Transaction } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationBusy, IntegrationNotFound } from '../framework/errors.ts'
import { throwIfGivenUp } from '../framework/waiting.ts'
import { lockIntegration, requireIntegration, switchedOff, updateIntegration } from '../integrations/queries.ts'
import type { AuditedAct } from '../observability/audit.ts'
import { recordAct } from '../observability/audit.ts'
import { streamsOf } from '../providers/streams.ts'
import { endSubscription } from '../subscriptions/acts.ts'

/** Rows of one statement: few enough to block no one for long, enough for millions in all. */
export const CHUNK_ROWS = 5_000

/** The tables whose rows belong to an integration; a table that refers to another comes before it. */
const OWNED = [
  'syncItems',
  'webhooks',
  'deliveries',
  'requests',
  'logs',
  'mappings',
  'idempotencyKeys',
  'incidents',
  'events',
  'recordHashes',
  'writtenRecords',
  'rollups',
] as const satisfies readonly (keyof Tables)[]
export type OwnedTable = (typeof OWNED)[number]

export interface DeleteIntegration {
  /** Ends a living run first; without it such an integration is refused. */
  readonly force?: boolean
  /** Who asked, for the log and the audit. Default there: `host`, whose code did. */
  readonly by?: string
  /** From where, for the audit. */
  readonly from?: string | undefined
}

/** Deleted rows, by table. */
export type DeletedRows = Readonly<Record<OwnedTable | 'cache', number>>

/**
 * Off first, then chunk by chunk, the row last: until then a second deletion resumes the first.
 *
 * @throws IntegrationNotFound; IntegrationBusy while a run lives, unless forced; BackendUnreachable; between two chunks the
 *   reason why the command was given up
 */
export async function deleteIntegration(
  framework: Framework,
  id: number,
  { force = false, by, from }: DeleteIntegration = {},
): Promise<DeletedRows> {
  const { tables, logger } = framework
  const { provider, name } = await bringToRest(framework, id, { force })
  const identity = { integration: id, provider, name, by: by ?? null }
  logger.info({ event: 'integration.deleting', ...identity }, 'an integration is being deleted')

  const chunks: Partial<Record<OwnedTable | 'cache', number>> = {}
  for (const table of OWNED)
    chunks[table] = await changeAll(framework, table, id, {
      // Waiting for a lock could end in a deadlock; deleteRemainder() takes what is left.
      lock: sql`for update skip locked`,
      change: sql`delete from ${tables[table]} t using chunk where t.id = chunk.id`,
    })
  chunks.cache = await clearCache(framework, id)
  const remainder = await despiteDeadlocks(() => deleteRemainder(framework, id, { by: by ?? 'host', from }))
  endLease(framework, id)
  const sum = (table: OwnedTable | 'cache'): number => (chunks[table] ?? 0) + (remainder?.[table] ?? 0)
  const deleted = Object.fromEntries([...OWNED, 'cache' as const].map((table) => [table, sum(table)])) as DeletedRows
  logger.info({ event: 'integration.deleted', ...identity, rows: deleted }, 'an integration was deleted')
  return deleted
}

/**
 * Changes the rows of an integration in a table by ascending id, chunk by chunk. @returns how many rows
 *
 * @param which of the rows, called `t`; default: all
 * @param lock how the chunk's rows are locked
 * @param change the statement over the rows of `chunk`, up to its `returning`
 * @throws the reason why the command was given up
 */
export async function changeAll(
  { db, tables }: Framework,
  name: OwnedTable,
  integrationId: number,
  { which = sql`true`, lock, change }: { readonly which?: SQL; readonly lock: SQL; readonly change: SQL },
): Promise<number> {
  let rows = 0
  for (let afterId: number | null = 0; afterId !== null; ) {
    throwIfGivenUp()
    const statement: SQL = sql`
      with chunk as (
        select t.id from ${tables[name]} t where t.integration_id = ${integrationId} and t.id > ${afterId} and (${which})
        order by t.id limit ${CHUNK_ROWS} ${lock}
      ), changed as (${change} returning t.id)
      select count(*)::int as rows, max(id) as last_id from changed`
    const [chunk] = await despiteDeadlocks(() => db.execute<{ rows: number; last_id: string | null }>(statement))
    rows += chunk?.rows ?? 0
    afterId = chunk?.last_id == null ? null : Number(chunk.last_id)
  }
  return rows
}

/** Deletes the cache entries of an integration, chunk by chunk. @throws the reason why the command was given up */
export async function clearCache(
  { config, db, tables }: Framework,
  id: number,
  { keepLocks = false }: { keepLocks?: boolean } = {},
): Promise<number> {
  const prefix = cachePrefix(config, id)
  let entries = 0
  for (let rows = CHUNK_ROWS; rows === CHUNK_ROWS; entries += rows) {
    throwIfGivenUp()
    rows = await deleteCacheEntries(db, tables, { prefix, limit: CHUNK_ROWS, keepLocks })
  }
  throwIfGivenUp()
  return entries
}

function cachePrefix(config: Framework['config'], id: number): string {
  return `${config.cache_prefix}:${integrationKey(id, '')}`
}

/**
 * Brings an integration to rest before its rows are deleted or erased. Rule: docs/behaviour/integrations.md, "Deletion" and "Erasure".
 *
 * Switches it off, so that no delivery is taken and no run opens, and ends a living run or backfill; also one that begins just
 * before the switch.
 *
 * Its webhook subscription is removed at the provider, which needs the credentials.
 *
 * @param force ends a living run instead of refusing, and leaves a subscription that the provider does not remove
 * @param more what changes in the row together with the switch
 * @throws IntegrationNotFound, IntegrationBusy, WebhookSubscriptionFailed; BackendUnreachable when Temporal can't say whether a run
 *   lives. Then nothing has changed
 */
export async function bringToRest(
  framework: Framework,
  id: number,
  { force, more = () => ({}) }: { force: boolean; more?: () => Partial<Pick<IntegrationRow, 'credentials'>> },
): Promise<IntegrationRow> {
  const { db, tables, workflows, providers } = framework
  const before = await requireIntegration({ db, tables }, id)
  const { provider } = before
  const declared = providers.find(provider)
  const streams = new Set([
    null,
    ...(declared === null ? [] : streamsOf(declared)),
    ...(await storedStreams(db, tables, id)),
  ])
  // Also when forced: if Temporal is away, this must be known before anything changes.
  for (const stream of streams) {
    const of = { integrationId: id, stream }
    const runs = await workflows.isSyncRunning(of)
    const backfills = await workflows.isBackfillRunning(of)
    if ((runs || backfills) && !force) throw new IntegrationBusy(id, runs ? 'sync run' : 'backfill')
  }
  await endSubscription(framework, before, { force })
  const row = await updateIntegration(db, tables, id, { ...switchedOff(tables), ...more() })
  if (row === null) throw new IntegrationNotFound(id)
  for (const stream of streams) {
    await workflows.cancelSync({ integrationId: id, stream })
    await workflows.cancelBackfill({ integrationId: id, stream })
  }
  return row
}

/** Also those that no release declares any more. */
async function storedStreams(db: Database, { streams }: Tables, integrationId: number): Promise<string[]> {
  const rows = await db.select({ stream: streams.stream }).from(streams).where(eq(streams.integrationId, integrationId))
  return rows.map(({ stream }) => stream)
}

/** Deletes cache entries whose key begins so, at most `limit`; also locks, unless they are to be kept. */
async function deleteCacheEntries(
  db: Database | Transaction,
  { cache }: Tables,
  { prefix, limit, keepLocks }: { prefix: string; limit: number; keepLocks: boolean },
): Promise<number> {
  const kept = keepLocks ? sql`and owner is null` : sql``
  const rows = await db.execute(sql`
    delete from ${cache} where key in (
      select key from ${cache} where starts_with(key, ${prefix}) ${kept} limit ${limit}
    ) returning 1`)
  return rows.length
}

/**
 * The row itself, with rows that came in meanwhile. The lock comes first: from then on a statement that would add a row for
 * this integration waits, and then fails on its foreign key.
 *
 * @returns deleted rows, by table; null when another caller has deleted the integration meanwhile
 */
async function deleteRemainder(
  { config, db, tables }: Framework,
  integrationId: number,
  who: Pick<AuditedAct, 'by' | 'from'>,
): Promise<DeletedRows | null> {
  return db.transaction(async (tx) => {
    if ((await lockIntegration(tx, tables, integrationId, 'update')) === null) return null
    const counts: Partial<Record<OwnedTable | 'cache', number>> = {}
    for (const name of OWNED) {
      const rows = await tx.execute(
        sql`delete from ${tables[name]} where integration_id = ${integrationId} returning 1`,
      )
      counts[name] = rows.length
    }
    counts.cache = await deleteCacheEntries(tx, tables, {
      prefix: cachePrefix(config, integrationId),
      limit: 2 ** 31 - 1,
      keepLocks: false,
    })
    // While the row is there, which says what is deleted.
    await recordAct(tx, tables, integrationId, { ...who, action: 'delete', target: `integration:${integrationId}` })
    await tx.delete(tables.integrations).where(eq(tables.integrations.id, integrationId))
    return counts as DeletedRows
  })
}
