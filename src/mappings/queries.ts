/** Statements over the mappings table. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, inArray } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { MappingRow, Tables } from '../db/schema/tables.ts'
import { currentOrigin } from '../framework/origin.ts'

export interface MappingKey {
  readonly integrationId: number
  readonly externalId: string
  readonly internalType: string
}

export async function findMapping(
  db: Database | Transaction,
  { mappings }: Tables,
  key: MappingKey,
): Promise<MappingRow | null> {
  const [row] = await db.select().from(mappings).where(matches(mappings, key))
  return row ?? null
}

/** The mappings of these external ids, as far as there are any. */
export async function findMappings(
  db: Database | Transaction,
  { mappings }: Tables,
  of: Omit<MappingKey, 'externalId'>,
  externalIds: readonly string[],
): Promise<MappingRow[]> {
  if (externalIds.length === 0) return []
  return db
    .select()
    .from(mappings)
    .where(and(matches(mappings, of), inArray(mappings.externalId, [...externalIds])))
}

/** The oldest mapping of a model. */
export async function findMappingOfModel(
  db: Database | Transaction,
  { mappings }: Tables,
  model: Omit<MappingKey, 'externalId'> & { readonly internalId: string },
): Promise<MappingRow | null> {
  const [row] = await db.select().from(mappings).where(matches(mappings, model)).orderBy(asc(mappings.id)).limit(1)
  return row ?? null
}

/** Columns that equal what is given. */
function matches(
  mappings: Tables['mappings'],
  { integrationId, externalId, internalType, internalId }: Partial<MappingKey & { readonly internalId: string }>,
): SQL | undefined {
  return and(
    integrationId === undefined ? undefined : eq(mappings.integrationId, integrationId),
    externalId === undefined ? undefined : eq(mappings.externalId, externalId),
    internalType === undefined ? undefined : eq(mappings.internalType, internalType),
    internalId === undefined ? undefined : eq(mappings.internalId, internalId),
  )
}

/** Claims an external id for a model. False: another claim of the same id and type was first. */
export async function claimMapping(
  db: Database | Transaction,
  tables: Tables,
  key: MappingKey,
  internalId: string,
): Promise<boolean> {
  const { mappings } = tables
  const rows = await db
    .insert(mappings)
    .values({ ...key, internalId, origin: currentOrigin(tables) })
    .onConflictDoNothing({ target: [mappings.integrationId, mappings.externalId, mappings.internalType] })
    .returning({ id: mappings.id })
  return rows.length === 1
}

/** Points an external id at this model, also when another holds it. @returns the model before; null: none */
export async function pointMapping(
  tx: Transaction,
  tables: Tables,
  key: MappingKey,
  internalId: string,
): Promise<string | null> {
  const { mappings } = tables
  // Its claim may be gone before its row is locked: then it is claimed again.
  while (!(await claimMapping(tx, tables, key, internalId))) {
    const [before] = await tx.select().from(mappings).where(matches(mappings, key)).for('update')
    if (before === undefined) continue
    if (before.internalId !== internalId)
      await tx.update(mappings).set({ internalId }).where(eq(mappings.id, before.id))
    return before.internalId
  }
  return null
}

/** Points an external id from one model to another. False: by now it points elsewhere, or nowhere. */
export async function repointMapping(
  tx: Transaction,
  { mappings }: Tables,
  key: MappingKey,
  from: string,
  to: string,
): Promise<boolean> {
  const rows = await tx
    .update(mappings)
    .set({ internalId: to })
    .where(matches(mappings, { ...key, internalId: from }))
    .returning({ id: mappings.id })
  return rows.length === 1
}

/**
 * The internal ids that have a mapping; only those of one integration, if `integrationId` is given.
 * Rule: docs/behaviour/mappings.md, "Orphans".
 */
export async function mappedInternalIds(
  db: Database | Transaction,
  { mappings }: Tables,
  { internalType, integrationId }: { internalType: string; integrationId: number | undefined },
  internalIds: readonly string[],
): Promise<Set<string>> {
  const rows = await db
    .selectDistinct({ internalId: mappings.internalId })
    .from(mappings)
    .where(
      and(
        matches(mappings, { internalType, ...(integrationId === undefined ? {} : { integrationId }) }),
        inArray(mappings.internalId, [...internalIds]),
      ),
    )
  return new Set(rows.map((row) => row.internalId))
}
