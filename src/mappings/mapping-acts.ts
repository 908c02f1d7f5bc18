/** What a person does with a mapping. Rule: docs/behaviour/mappings.md, "Acts". */

import { eq } from 'drizzle-orm'
import type { Transaction } from '../db/client.ts'
import type { MappingRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { MappedRowNotFound } from '../framework/errors.ts'
import { checkTexts } from '../framework/list-filter.ts'
import { thrownTexts } from '../framework/thrown.ts'
import { runInTransaction } from '../framework/transactions.ts'
import { recordAct } from '../observability/audit.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { MappedModel } from '../providers/mapped-model.ts'
import type { MappingSummary } from './mapping-list.ts'
import { lockMapping, requireMapping } from './mapping-list.ts'
import { checkedModel, claimed } from './mappings.ts'
import { modelOf } from './orphans.ts'
import { findMapping } from './queries.ts'

export interface MappingActor {
  /** Who acts. */
  readonly by: string
  /** From where: docs/behaviour/audit.md. */
  readonly from?: string | undefined
}

export interface RepointMapping extends MappingActor {
  /** Key of the row that the external id stands for from now on, as text. */
  readonly internalId: string
  /** Its model. Default: the one of before. */
  readonly internalType?: string | undefined
}

/**
 * Points an external id at another row, which must be there; at the same one it changes nothing.
 *
 * @throws MappingNotFound, MappedRowNotFound; MappingAlreadyClaimed when the external id is mapped in the other model already;
 *   InvalidArgumentException, also naming the registered models
 */
export async function repointByHand(
  framework: Framework,
  id: number,
  { internalId, internalType, by, from }: RepointMapping,
): Promise<MappingSummary> {
  checkTexts({ by: by ?? '', from, internalId: internalId ?? '', internalType })
  const { tables } = framework
  return runInTransaction(framework, async (tx) => {
    const before = await lockMapping(tx, tables, id)
    const type = internalType ?? before.internalType
    const asked = checkedModel({ type, id: internalId })
    const model = modelOf(framework, type)
    const row = await mappedRow(tx, model, asked)
    // As the row spells its key: Postgres finds 43 also by `043`, and a UUID in capitals; what resolves mappings compares texts.
    const to = { type, id: checkedModel(model.of(row)).id }
    if (to.type === before.internalType && to.id === before.internalId) return requireMapping(tx, tables, id)
    await pointElsewhere(framework, tx, before, to)
    await note(framework, tx, before, to, { by, from, action: 'repoint-mapping' })
    return requireMapping(tx, tables, id)
  })
}

/**
 * Removes a mapping; the row that it points to stays. The next upsert of the external id makes a new one.
 *
 * @returns what it was
 * @throws MappingNotFound, InvalidArgumentException
 */
export async function forgetMapping(
  framework: Framework,
  id: number,
  { by, from }: MappingActor,
): Promise<MappingSummary> {
  checkTexts({ by: by ?? '', from })
  const { tables } = framework
  return runInTransaction(framework, async (tx) => {
    await lockMapping(tx, tables, id)
    const forgotten = await requireMapping(tx, tables, id)
    await tx.delete(tables.mappings).where(eq(tables.mappings.id, id))
    await note(framework, tx, forgotten, null, { by, from, action: 'forget-mapping' })
    return forgotten
  })
}

type Model = { readonly type: string; readonly id: string }

/** SQLSTATE class 22: the key column can't hold the value, so no row has it. @throws MappedRowNotFound */
async function mappedRow(tx: Transaction, model: MappedModel, { type, id }: Model): Promise<unknown> {
  try {
    const row = (await model.find(tx, id)) ?? null
    if (row !== null) return row
  } catch (error) {
    // Drizzle wraps what the host's own database says.
    const said = [error, error instanceof Error ? error.cause : null]
    if (!said.some((one) => /^22/.test(String(thrownTexts(one).code)))) throw error
  }
  throw new MappedRowNotFound(type, id)
}

const UNIQUE_VIOLATION = '23505' // https://www.postgresql.org/docs/current/errcodes-appendix.html

/** An external id has one row of each model: the index decides, also against a claim of the same moment. @throws MappingAlreadyClaimed */
async function pointElsewhere(
  framework: Framework,
  tx: Transaction,
  { id, integrationId, externalId }: MappingRow,
  to: Model,
): Promise<void> {
  const { mappings } = framework.tables
  try {
    // An inner transaction, so that the outer one can still ask who was first.
    await runInTransaction(framework, (inner) =>
      inner.update(mappings).set({ internalType: to.type, internalId: to.id }).where(eq(mappings.id, id)),
    )
  } catch (error) {
    if ((error as { code?: unknown }).code !== UNIQUE_VIOLATION) throw error
    const key = { integrationId, externalId, internalType: to.type }
    const holder = await findMapping(tx, framework.tables, key)
    throw await claimed(framework, tx, key, holder?.internalId ?? null, to.id)
  }
}

/** As `remapExternalId()` logs it, and in the audit. */
async function note(
  { tables }: Framework,
  tx: Transaction,
  { id, integrationId, externalId, internalType, internalId }: MappingRow,
  to: Model | null,
  { by, from, action }: MappingActor & { readonly action: string },
): Promise<void> {
  await insertLog(tx, tables, {
    integrationId,
    operation: 'remap',
    direction: 'inbound',
    status: 'success',
    externalId: externalId.slice(0, 255),
    metadata: { internal_type: to?.type ?? internalType, from: internalId, to: to?.id ?? null, by },
  })
  const now = to === null ? 'nothing' : `${to.type} ${to.id}`
  const detail = `from ${internalType} ${internalId} to ${now}`
  await recordAct(tx, tables, integrationId, { by, from, action, target: `mapping:${id}`, detail })
}
