/** Rows of a host's model that have lost their mapping. Rule: docs/behaviour/mappings.md, "Orphans". */

import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { checkIds } from '../framework/list-filter.ts'
import { modelConnection } from '../framework/transactions.ts'
import { requireIntegration } from '../integrations/queries.ts'
import type { MappedModel } from '../providers/mapped-model.ts'
import type { FindOrphansInput, FindOrphansResult, Orphan } from './mapping-jobs.ts'
import { mappedInternalIds } from './queries.ts'

/** Rows of one look: a short statement on both sides, and all that is held at once. */
const CHUNK_ROWS = 1_000
const DEFAULT_LIMIT = 50

export interface OrphanSearch {
  /** Ends the search after the chunk under way: it throws the signal's reason. */
  readonly signal?: AbortSignal
  /** Told after each chunk. */
  onProgress?(progress: { readonly scanned: number; readonly orphans: number }): void
}

/**
 * Compares here and not in SQL, chunk by chunk: the model's rows may be in another database than the mappings.
 *
 * A row is read before its mapping is looked for, so one that came with its mapping meanwhile is no orphan.
 *
 * @throws InvalidArgumentException naming the registered models, IntegrationNotFound
 */
export async function findOrphans(
  framework: Framework,
  { model: name, integrationId, limit = DEFAULT_LIMIT }: FindOrphansInput,
  { signal, onProgress }: OrphanSearch = {},
): Promise<FindOrphansResult> {
  const model = modelOf(framework, name)
  checkIds({ integrationId, limit })
  const { tables } = framework
  if (integrationId !== undefined) await requireIntegration(framework, integrationId)

  const connection = modelConnection(framework)
  const rows: Orphan[] = []
  let scanned = 0
  let orphans = 0
  let before: readonly string[] = []
  for (;;) {
    signal?.throwIfAborted()
    const chunk = await model.scan(connection, before.at(-1) ?? null, CHUNK_ROWS)
    if (chunk.length === 0) return { model: name, scanned, orphans, rows }
    const ids = chunk.map(({ id }) => id)
    refuseRepeats(name, before, ids)
    const mapped = await mappedInternalIds(connection, tables, { internalType: model.type, integrationId }, ids)
    for (const { id, createdAt } of chunk) {
      if (mapped.has(id)) continue
      orphans += 1
      if (rows.length < limit) rows.push({ id, createdAt: createdAt?.toISOString() ?? null })
    }
    scanned += chunk.length
    before = ids
    onProgress?.({ scanned, orphans })
  }
}

export function modelOf({ models }: Framework, name: unknown): MappedModel {
  const model = typeof name === 'string' ? models.get(name) : undefined
  if (model === undefined)
    throw new InvalidArgumentException(
      'model',
      `the name of a registered model is allowed (${[...models.keys()].join(', ') || 'there is none'}), ${JSON.stringify(name)} was given`,
    )
  return model
}

/** A scan that does not go on after `afterId` would never end; one by a key that is not unique would pass rows over. */
function refuseRepeats(name: string, before: readonly string[], ids: readonly string[]): void {
  const seen = new Set(before)
  for (const id of ids) {
    if (seen.has(id))
      throw new InvalidArgumentException(
        'model',
        `scan() of "${name}" must give each row once, in the order of a unique key, from the one after afterId on; it gave ${JSON.stringify(id)} twice`,
      )
    seen.add(id)
  }
}
