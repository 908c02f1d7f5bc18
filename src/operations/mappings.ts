/**
 * External ids and the host's models behind them.
 *
 * Rule: docs/behaviour/mappings.md.
 */
import { createHash } from 'node:crypto'
import { integrationKey } from '../cache/integration-keys.ts'
import type { LockOptions } from '../cache/lock.ts'
import { withLock } from '../cache/lock.ts'
import { InvalidArgumentException, MappingAlreadyClaimed } from '../core/errors.ts'
import type { Database, Transaction } from '../db/client.ts'
import { insertLog } from '../db/queries/logs.ts'
import type { MappingKey } from '../db/queries/mappings.ts'
import { claimMapping, findMapping, findMappingOfModel, findMappings, pointMapping } from '../db/queries/mappings.ts'
import type { Framework } from '../framework.ts'
import type { ExternalId } from '../providers/integration.ts'
import type { MappedModel, ModelRef } from '../providers/mapped-model.ts'
import { keepToTransactionsEnd, modelConnection, runInTransaction } from './transactions.ts'

const MAX_EXTERNAL_ID_LENGTH = 500

/** The external id as text, compared exactly ever after. @throws InvalidArgumentException */
export function externalIdText(externalId: ExternalId): string {
  if (typeof externalId === 'number' && !Number.isSafeInteger(externalId))
    throw new InvalidArgumentException('externalId', `text or a whole number is allowed, ${externalId} was given`)
  const text = String(externalId)
  const length = [...text].length
  if (length < 1 || length > MAX_EXTERNAL_ID_LENGTH || text.includes('\u0000'))
    throw new InvalidArgumentException(
      'externalId',
      `1 to ${MAX_EXTERNAL_ID_LENGTH} characters without U+0000 are allowed, ${length} were given`,
    )
  return text
}

/** Maps an external id; the same model twice is fine. @throws MappingAlreadyClaimed, also when the holder is gone */
export async function mapExternalId(
  framework: Framework,
  integrationId: number,
  externalId: ExternalId,
  model: ModelRef,
): Promise<void> {
  const key = keyOf(integrationId, externalId, model.type)
  const db = modelConnection(framework)
  if (await claimMapping(db, framework.tables, key, model.id)) return
  await refuseUnlessHolder(framework, db, key, model.id)
}

/** Points the external id at this model, whoever held it; the change is logged with both ids. */
export async function remapExternalId(
  framework: Framework,
  integrationId: number,
  externalId: ExternalId,
  model: ModelRef,
): Promise<void> {
  const key = keyOf(integrationId, externalId, model.type)
  await runInTransaction(framework, async (tx) => {
    const before = await pointMapping(tx, framework.tables, key, model.id)
    if (before === model.id) return
    await insertLog(tx, framework.tables, {
      integrationId,
      operation: 'remap',
      direction: 'inbound',
      status: 'success',
      externalId: key.externalId.slice(0, 255),
      metadata: { internal_type: key.internalType, from: before, to: model.id },
    })
  })
}

/**
 * Creates or updates the model behind an external id. However many callers do it at the same moment, in however many
 * processes, there is one model and one mapping: a lock orders them, and the mapping's uniqueness decides if a lock ran
 * out. The model and its mapping are written in one transaction.
 */
export async function upsertByExternalId<Row, Attributes>(
  framework: Framework,
  integrationId: number,
  externalId: ExternalId,
  model: MappedModel<Row, Attributes>,
  attributes: Attributes | ((existing: Row | null) => Attributes | Promise<Attributes>),
): Promise<Row> {
  const key = keyOf(integrationId, externalId, model.type)
  const digest = createHash('sha256').update(key.externalId).digest('hex')
  const { lock_ttl: ttlSeconds, lock_wait: waitSeconds } = framework.config.mappings
  const lock = integrationKey(integrationId, `lock:mapping:${model.type}:${digest}`)
  return withModelLock(framework, lock, { ttlSeconds, waitSeconds }, async () => {
    const valuesFor = async (existing: Row | null): Promise<Attributes> =>
      typeof attributes === 'function'
        ? (attributes as (existing: Row | null) => Attributes | Promise<Attributes>)(existing)
        : attributes
    return (
      (await writeOnce(framework, key, model, valuesFor)) ??
      // The claim was lost to somebody whose lock overlapped ours: theirs is there now, so this finds and updates it.
      (await writeOnce(framework, key, model, valuesFor)) ??
      Promise.reject(
        new MappingAlreadyClaimed({
          ...key,
          claimedBy: 'another writer',
          requestedBy: 'a new model',
          holderExists: true,
        }),
      )
    )
  })
}

/** Inside a host's transaction the lock is kept to its end: given back before the commit, it would let a twin be made. */
async function withModelLock<T>(
  framework: Framework,
  lock: string,
  options: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const isKept = await keepToTransactionsEnd(framework, lock, (taken, ended) =>
    withLock(framework.cache, lock, options, () => {
      taken()
      return ended
    }),
  )
  return isKept ? work() : withLock(framework.cache, lock, options, work)
}

/** Null: somebody claimed the external id meanwhile, and our own new model was taken back. */
async function writeOnce<Row, Attributes>(
  framework: Framework,
  key: MappingKey,
  model: MappedModel<Row, Attributes>,
  valuesFor: (existing: Row | null) => Promise<Attributes>,
): Promise<Row | null> {
  try {
    // Known as open: a keyed write made by the model or the attributes would be forgotten by its rollback.
    return await runInTransaction(framework, async (tx) => {
      const mapping = await findMapping(tx, framework.tables, key)
      const existing = mapping === null ? null : await model.find(tx, mapping.internalId)
      if (mapping !== null && existing !== null) return model.update(tx, mapping.internalId, await valuesFor(existing))
      const created = await model.create(tx, await valuesFor(null))
      const { id } = model.of(created)
      if (mapping !== null) await pointMapping(tx, framework.tables, key, id)
      else if (!(await claimMapping(tx, framework.tables, key, id))) {
        await model.remove?.(id)
        throw new ClaimLost()
      }
      return created
    })
  } catch (error) {
    if (error instanceof ClaimLost) return null
    throw error
  }
}

/** Rolls the transaction back; never leaves this file. */
class ClaimLost extends Error {}

export async function findExternalId(
  framework: Framework,
  integrationId: number,
  model: ModelRef,
): Promise<string | null> {
  const mapping = await findMappingOfModel(modelConnection(framework), framework.tables, {
    integrationId,
    internalType: model.type,
    internalId: model.id,
  })
  return mapping?.externalId ?? null
}

/** The models behind external ids; every asked id is in the map, null where there is none or its row is gone. */
export async function resolveMappings<Row, Attributes>(
  framework: Framework,
  integrationId: number,
  externalIds: readonly ExternalId[],
  model: MappedModel<Row, Attributes>,
): Promise<Map<string, Row | null>> {
  const asked = externalIds.map(externalIdText)
  const db = modelConnection(framework)
  const mappings = await findMappings(db, framework.tables, { integrationId, internalType: model.type }, [
    ...new Set(asked),
  ])
  const rows = await model.findMany(
    db,
    mappings.map((mapping) => mapping.internalId),
  )
  const byId = new Map(rows.map((row) => [model.of(row).id, row]))
  const byExternalId = new Map(mappings.map((mapping) => [mapping.externalId, byId.get(mapping.internalId) ?? null]))
  return new Map(asked.map((id) => [id, byExternalId.get(id) ?? null]))
}

async function refuseUnlessHolder(
  framework: Framework,
  db: Database | Transaction,
  key: MappingKey,
  requestedBy: string,
): Promise<void> {
  const holder = await findMapping(db, framework.tables, key)
  if (holder === null || holder.internalId === requestedBy) return
  const model = framework.models.get(key.internalType)
  const holderExists = model === undefined || (await model.find(db, holder.internalId)) !== null
  throw new MappingAlreadyClaimed({ ...key, claimedBy: holder.internalId, requestedBy, holderExists })
}

function keyOf(integrationId: number, externalId: ExternalId, internalType: string): MappingKey {
  return { integrationId, externalId: externalIdText(externalId), internalType }
}
