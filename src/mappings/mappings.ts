/** External ids and the host's models behind them. Rule: docs/behaviour/mappings.md. */
import { createHash } from 'node:crypto'
import { integrationKey } from '../cache/integration-keys.ts'
import type { LockOptions } from '../cache/lock.ts'
import { withLock } from '../cache/lock.ts'
import type { Database, Transaction } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, MappingAlreadyClaimed } from '../framework/errors.ts'
import { keepToTransactionsEnd, modelConnection, runInTransaction } from '../framework/transactions.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { ExternalId } from '../providers/integration.ts'
import type { MappedModel, ModelRef } from '../providers/mapped-model.ts'
import type { MappingKey } from './queries.ts'
import { claimMapping, findMapping, findMappingOfModel, findMappings, pointMapping, repointMapping } from './queries.ts'

const MAX_EXTERNAL_ID_LENGTH = 500
/** Columns `internal_type` and `internal_id`. */
const MAX_MODEL_LENGTH = 255
/** Ids that one statement is asked for: Postgres takes 65,535 parameters. */
const IDS_OF_ONE_STATEMENT = 1_000
/** Each loss needs a lock that ran out and a faster caller. */
const MAX_TRIES = 3

/** The external id as text, compared exactly ever after. @throws InvalidArgumentException */
function externalIdText(externalId: ExternalId): string {
  if (typeof externalId === 'number' ? !Number.isSafeInteger(externalId) : typeof externalId !== 'string')
    throw new InvalidArgumentException(
      'externalId',
      `text or a whole number is allowed, ${typeof externalId === 'number' ? externalId : kindOf(externalId)} was given`,
    )
  return checkedText('externalId', String(externalId), MAX_EXTERNAL_ID_LENGTH)
}

/** The reference, its texts such that the columns hold them. @throws InvalidArgumentException */
export function checkedModel({ type, id }: ModelRef): ModelRef {
  return {
    type: checkedText('model.type', type, MAX_MODEL_LENGTH),
    id: checkedText('model.id', id, MAX_MODEL_LENGTH),
  }
}

/** Postgres has no U+0000, and turns every half of a surrogate pair into the same character: two ids would be one. */
function checkedText(argument: string, text: unknown, maxLength: number): string {
  if (typeof text !== 'string')
    throw new InvalidArgumentException(argument, `text is allowed, ${kindOf(text)} was given`)
  const length = [...text].length
  if (length < 1 || length > maxLength || text.includes('\u0000') || /\p{Surrogate}/u.test(text))
    throw new InvalidArgumentException(
      argument,
      `1 to ${maxLength} characters without U+0000 and halves of surrogate pairs are allowed, ${length} were given`,
    )
  return text
}

function kindOf(value: unknown): string {
  return value === null ? 'null' : typeof value
}

/** Maps an external id; the same model twice is fine. @throws MappingAlreadyClaimed, also when the holder is gone */
export async function mapExternalId(
  framework: Framework,
  integrationId: number,
  externalId: ExternalId,
  model: ModelRef,
): Promise<void> {
  const { type, id } = checkedModel(model)
  const key = mappingKey(integrationId, externalId, type)
  const db = modelConnection(framework)
  while (!(await claimMapping(db, framework.tables, key, id))) {
    const holder = await findMapping(db, framework.tables, key)
    if (holder?.internalId === id) return
    // Null: the holder is gone by now, so it is claimed again.
    if (holder !== null) throw await claimed(framework, db, key, holder.internalId, id)
  }
}

/** Points the external id at this model, also when another holds it; the change is logged with both ids. */
export async function remapExternalId(
  framework: Framework,
  integrationId: number,
  externalId: ExternalId,
  model: ModelRef,
): Promise<void> {
  const { type, id } = checkedModel(model)
  const key = mappingKey(integrationId, externalId, type)
  await runInTransaction(framework, async (tx) => {
    const before = await pointMapping(tx, framework.tables, key, id)
    if (before === id) return
    await insertLog(tx, framework.tables, {
      integrationId,
      operation: 'remap',
      direction: 'inbound',
      status: 'success',
      externalId: key.externalId.slice(0, 255),
      metadata: { internal_type: key.internalType, from: before, to: id },
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
  const key = mappingKey(integrationId, externalId, model.type)
  const digest = createHash('sha256').update(key.externalId).digest('hex')
  const { lock_ttl: ttlSeconds, lock_wait: waitSeconds } = framework.config.mappings
  const lock = integrationKey(integrationId, `lock:mapping:${model.type}:${digest}`)
  return withModelLock(framework, lock, { ttlSeconds, waitSeconds }, async () => {
    const valuesFor = async (existing: Row | null): Promise<Attributes> =>
      typeof attributes === 'function'
        ? (attributes as (existing: Row | null) => Attributes | Promise<Attributes>)(existing)
        : attributes
    // A claim is lost to a caller whose lock overlapped ours: the next try finds its mapping and updates its model.
    for (let tries = 1; tries <= MAX_TRIES; tries++) {
      const written = await writeOnce(framework, key, model, valuesFor)
      if (written !== null) return written.row
    }
    const db = modelConnection(framework)
    const holder = await findMapping(db, framework.tables, key)
    throw await claimed(framework, db, key, holder?.internalId ?? null, 'a new model')
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

/** Null: another caller claimed the external id meanwhile, and our new model was taken back; or the old one was deleted. */
async function writeOnce<Row, Attributes>(
  framework: Framework,
  key: MappingKey,
  model: MappedModel<Row, Attributes>,
  valuesFor: (existing: Row | null) => Promise<Attributes>,
): Promise<{ readonly row: Row } | null> {
  const { tables } = framework
  try {
    // Known as open: a keyed write made by the model or the attributes would be forgotten by its rollback.
    return await runInTransaction(framework, async (tx) => {
      const mapping = await findMapping(tx, tables, key)
      const existing = mapping === null ? null : ((await model.find(tx, mapping.internalId)) ?? null)
      if (mapping !== null && existing !== null) {
        const updated = await model.update(tx, mapping.internalId, await valuesFor(existing))
        const row = updated ?? (await model.find(tx, mapping.internalId)) ?? null
        if (row === null) throw new RaceLost()
        return { row }
      }
      const row = await model.create(tx, await valuesFor(null))
      const { id } = checkedModel(model.of(row))
      const isOurs =
        mapping === null
          ? await claimMapping(tx, tables, key, id)
          : await repointMapping(tx, tables, key, mapping.internalId, id)
      if (isOurs) return { row }
      await model.remove?.(id)
      throw new RaceLost()
    })
  } catch (error) {
    if (error instanceof RaceLost) return null
    throw error
  }
}

/** Rolls the transaction back; never leaves this file. */
class RaceLost extends Error {}

export async function findExternalId(
  framework: Framework,
  integrationId: number,
  model: ModelRef,
): Promise<string | null> {
  const { type, id } = checkedModel(model)
  const mapping = await findMappingOfModel(modelConnection(framework), framework.tables, {
    integrationId,
    internalType: type,
    internalId: id,
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
  const found = new Map<string, Row | null>(externalIds.map((externalId) => [externalIdText(externalId), null]))
  const db = modelConnection(framework)
  const asked = [...found.keys()]
  for (let from = 0; from < asked.length; from += IDS_OF_ONE_STATEMENT) {
    const ids = asked.slice(from, from + IDS_OF_ONE_STATEMENT)
    const mappings = await findMappings(db, framework.tables, { integrationId, internalType: model.type }, ids)
    const rows = await model.findMany(db, [...new Set(mappings.map(({ internalId }) => internalId))])
    const byId = new Map(rows.map((row) => [model.of(row).id, row]))
    for (const { externalId, internalId } of mappings) found.set(externalId, byId.get(internalId) ?? null)
  }
  return found
}

/** @param holderId null: there is no holder by now */
export async function claimed(
  framework: Framework,
  db: Database | Transaction,
  key: MappingKey,
  holderId: string | null,
  requestedBy: string,
): Promise<MappingAlreadyClaimed> {
  const model = framework.models.get(key.internalType)
  const isThere = async (id: string) => model === undefined || ((await model.find(db, id)) ?? null) !== null
  const holderExists = holderId !== null && (await isThere(holderId))
  return new MappingAlreadyClaimed({ ...key, claimedBy: holderId ?? 'nobody', requestedBy, holderExists })
}

function mappingKey(integrationId: number, externalId: ExternalId, internalType: string): MappingKey {
  return {
    integrationId,
    externalId: externalIdText(externalId),
    internalType: checkedText('model.type', internalType, MAX_MODEL_LENGTH),
  }
}
