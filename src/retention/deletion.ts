/** Removes an integration with all its rows. Rule: docs/behaviour/integrations.md, "Deletion". */
import { eq, sql } from 'drizzle-orm'
import { integrationKey } from '../cache/integration-keys.ts'
import { endLease } from '../calls/admission/call-state.ts'
import type { Database } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import { FAILURE_CLASSES } from '../db/schema/requests-table.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationBusy, IntegrationNotFound } from '../framework/errors.ts'
import { throwIfGivenUp } from '../framework/waiting.ts'
import { lockIntegration, requireIntegration, switchedOff, updateIntegration } from '../integrations/queries.ts'
import type { AuditedAct } from '../observability/audit.ts'
import { recordAct } from '../observability/audit.ts'
import { streamsOf } from '../providers/streams.ts'
import { endSubscription } from '../subscriptions/acts.ts'
import type { Change, Position, Pruned, Walk } from './queries.ts'
import { changeChunk } from './queries.ts'

/** Rows that one statement looks at: few enough to block no one for long, enough for millions in all. */
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

const BY_ID: readonly Walk[] = [{ rows: sql`true`, at: 'id' }]
const BY_AGE: readonly Walk[] = [{ rows: sql`true`, at: 'created_at' }]
/** Large tables with an index by integration and age; that of requests has the failure class in between. */
const WALKS: { readonly [name in OwnedTable]?: readonly Walk[] } = {
  webhooks: BY_AGE,
  syncItems: BY_AGE,
  requests: [
    sql`t.failure_class is null`,
    ...FAILURE_CLASSES.map((failureClass) => sql`t.failure_class = ${failureClass}`),
  ].map((rows) => ({ rows, at: 'created_at' })),
}

/** Changes rows of an integration, chunk by chunk. @returns how many. @throws the reason why the command was given up */
export async function changeAll(
  { db, tables }: Framework,
  name: OwnedTable,
  integrationId: number,
  change: Change,
): Promise<number> {
  let rows = 0
  for (const walk of WALKS[name] ?? BY_ID) {
    let after: Position | null = null
    do {
      throwIfGivenUp()
      const input = { integrationId, walk, after, limit: CHUNK_ROWS }
      const chunk: Pruned = await despiteDeadlocks(() => changeChunk(db, tables[name], change, input))
      rows += chunk.rows
      after = chunk.next
    } while (after !== null)
  }
  return rows
}

/** Deletes the cache entries of an integration, chunk by chunk. @throws the reason why the command was given up */
export async function clearCache(
  { cache }: Framework,
  id: number,
  { keepLocks = false }: { keepLocks?: boolean } = {},
): Promise<number> {
  let entries = 0
  for (let rows = CHUNK_ROWS; rows === CHUNK_ROWS; entries += rows) {
    throwIfGivenUp()
    rows = await cache.deleteOf(integrationKey(id, ''), { limit: CHUNK_ROWS, keepLocks })
  }
  throwIfGivenUp()
  return entries
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
  framework.integrationsChanged.set(provider, performance.now())
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

/**
 * The row itself, with rows that came in meanwhile. The lock comes first: from then on a statement that would add a row for
 * this integration waits, and then fails on its foreign key.
 *
 * @returns deleted rows, by table; null when another caller has deleted the integration meanwhile
 */
async function deleteRemainder(
  { cache, db, tables }: Framework,
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
    const whole = { limit: 2 ** 31 - 1, keepLocks: false }
    counts.cache = await cache.within(tx).deleteOf(integrationKey(integrationId, ''), whole)
    // While the row is there, which says what is deleted.
    await recordAct(tx, tables, integrationId, { ...who, action: 'delete', target: `integration:${integrationId}` })
    await tx.delete(tables.integrations).where(eq(tables.integrations.id, integrationId))
    return counts as DeletedRows
  })
}
