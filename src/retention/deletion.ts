/** Removes an integration with all its rows. Rule: docs/behaviour/integrations.md, "Deletion". */
import { integrationKey } from '../cache/integration-keys.ts'
import { endLease } from '../calls/admission/call-state.ts'
import { despiteDeadlocks } from '../db/client.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationBusy, IntegrationNotFound } from '../framework/errors.ts'
import { throwIfGivenUp } from '../framework/waiting.ts'
import { findIntegration, switchedOff, updateIntegration } from '../integrations/queries.ts'
import type { OwnedTable } from './deletion-queries.ts'
import { deleteCacheEntries, deleteChunk, deleteRemainder, OWNED } from './deletion-queries.ts'

/** Rows of one statement: short enough to hold nobody up, long enough for millions. */
export const CHUNK_ROWS = 5_000

export interface DeleteIntegration {
  /** Ends a living run first; without it such an integration is refused. */
  readonly force?: boolean
  /** Who asked, for the log. */
  readonly by?: string
}

/** Rows that went with it, by table. */
export type DeletedRows = Readonly<Record<OwnedTable | 'cache', number>>

/**
 * Off first, then chunk by chunk, the row last: until then the deletion can be asked for again, and goes on.
 *
 * @throws IntegrationNotFound; IntegrationBusy while a run lives, unless forced; BackendUnreachable; between two chunks why the
 *   command was given up
 */
export async function deleteIntegration(
  framework: Framework,
  id: number,
  { force = false, by }: DeleteIntegration = {},
): Promise<DeletedRows> {
  const { config, db, tables, logger } = framework
  const { provider, name } = await bringToRest(framework, id, { force })
  const identity = { integration: id, provider, name, by: by ?? null }
  logger.info({ event: 'integration.deleting', ...identity }, 'an integration is being deleted')

  const prefix = `${config.cache_prefix}:${integrationKey(id, '')}`
  const chunks: Partial<Record<OwnedTable | 'cache', number>> = {}
  for (const table of OWNED)
    chunks[table] = await allChunks((afterId) =>
      deleteChunk(db, tables, table, { integrationId: id, afterId, limit: CHUNK_ROWS }),
    )
  let entries: number
  do {
    throwIfGivenUp()
    entries = await deleteCacheEntries(db, tables, { prefix, limit: CHUNK_ROWS })
    chunks.cache = (chunks.cache ?? 0) + entries
  } while (entries === CHUNK_ROWS)

  throwIfGivenUp()
  const remainder = await despiteDeadlocks(() => deleteRemainder(db, tables, id, prefix))
  endLease(framework, id)
  const sum = (table: OwnedTable | 'cache'): number => (chunks[table] ?? 0) + (remainder?.[table] ?? 0)
  const deleted = Object.fromEntries([...OWNED, 'cache' as const].map((table) => [table, sum(table)])) as DeletedRows
  logger.info({ event: 'integration.deleted', ...identity, rows: deleted }, 'an integration was deleted')
  return deleted
}

/** Walks until a statement finds nothing more. @returns the rows of all of them. @throws why the command was given up */
export async function allChunks(
  next: (afterId: number) => Promise<{ readonly rows: number; readonly lastId: number | null }>,
): Promise<number> {
  let rows = 0
  for (let afterId: number | null = 0; afterId !== null; ) {
    throwIfGivenUp()
    const walked = await next(afterId)
    rows += walked.rows
    afterId = walked.lastId
  }
  return rows
}

/**
 * Brings an integration to rest before its rows are deleted or erased. Rule: docs/behaviour/integrations.md, "Deletion" and "Erasure".
 *
 * Switches it off, so that no delivery is taken and no run opens, and ends a living run. A run that begins between the question
 * and the switch is ended, too.
 *
 * @param force ends a living run instead of refusing
 * @param more what changes in the row together with the switch
 * @throws IntegrationNotFound, IntegrationBusy; BackendUnreachable when Temporal can't say whether a run lives. Then
 *   nothing has changed
 */
export async function bringToRest(
  { db, tables, workflows }: Framework,
  id: number,
  { force, more = () => ({}) }: { force: boolean; more?: () => Partial<Pick<IntegrationRow, 'credentials'>> },
): Promise<IntegrationRow> {
  if ((await findIntegration(db, tables, id)) === null) throw new IntegrationNotFound(id)
  // Asked in any case: when Temporal is away, this must be known before anything changes.
  const isRunning = await workflows.isSyncRunning(id)
  if (isRunning && !force) throw new IntegrationBusy(id)
  const row = await updateIntegration(db, tables, id, { ...switchedOff(tables), ...more() })
  if (row === null) throw new IntegrationNotFound(id)
  await workflows.cancelSync(id)
  return row
}
