/** Blanks what an integration's rows hold of others' data. Rule: docs/behaviour/integrations.md, "Erasure". */
import { integrationKey } from '../cache/integration-keys.ts'
import { despiteDeadlocks } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { throwIfGivenUp } from '../framework/waiting.ts'
import { insertLog } from '../observability/log-queries.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import { allChunks, bringToRest, CHUNK_ROWS } from './deletion.ts'
import { deleteCacheEntries } from './deletion-queries.ts'
import type { ErasableTable } from './erasure-queries.ts'
import { ERASABLE, eraseChunk } from './erasure-queries.ts'

export interface EraseIntegration {
  /** Ends a living run first; without it such an integration is refused: its items need their payloads. */
  readonly force?: boolean
  /** Who asked, for the logs. */
  readonly by?: string
}

/** Rows that were blanked, by table; of the cache, entries that went. */
export type ErasedRows = Readonly<Record<ErasableTable | 'cache', number>>

/**
 * Off and without credentials first, then chunk by chunk. What breaks off half-way goes on when it is asked for again.
 *
 * @throws IntegrationNotFound; IntegrationBusy while a run lives, unless forced; BackendUnreachable; between two chunks why the
 *   command was given up
 */
export async function eraseIntegration(
  framework: Framework,
  id: number,
  { force = false, by }: EraseIntegration = {},
): Promise<ErasedRows> {
  const { config, db, tables, encryption, logger } = framework
  const { provider } = await subjectOf(framework, id)
  await bringToRest(framework, id, { force, more: () => ({ credentials: encryption.encrypt(id, {}) }) })

  const counts: Partial<Record<ErasableTable | 'cache', number>> = {}
  for (const table of ERASABLE)
    counts[table] = await allChunks((afterId) =>
      despiteDeadlocks(() => eraseChunk(db, tables, table, { integrationId: id, afterId, limit: CHUNK_ROWS })),
    )
  const prefix = `${config.cache_prefix}:${integrationKey(id, '')}`
  // A lock stays its owner's: who works under it must not meet another one.
  const keepLocks = true
  let entries: number
  do {
    throwIfGivenUp()
    entries = await deleteCacheEntries(db, tables, { prefix, limit: CHUNK_ROWS, keepLocks })
    counts.cache = (counts.cache ?? 0) + entries
  } while (entries === CHUNK_ROWS)

  throwIfGivenUp()
  const erased = counts as Record<ErasableTable | 'cache', number>
  await insertLog(db, tables, {
    integrationId: id,
    operation: 'erase',
    direction: 'inbound',
    status: 'success',
    metadata: { by: by ?? null, counts: erased },
  })
  logger.info(
    { event: 'integration.erased', integration: id, provider, by: by ?? null, rows: erased },
    'an integration was erased',
  )
  return erased
}
