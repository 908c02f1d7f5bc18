/** Statements over the mappings table. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, inArray } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { MappingRow, Tables } from '../db/schema/tables.ts'

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
  const [row] = await db.select().from(mappings).where(isMapping(mappings, key))
  return row ?? null
}

function isMapping(mappings: Tables['mappings'], key: MappingKey): SQL | undefined {
  return and(
    eq(mappings.integrationId, key.integrationId),
    eq(mappings.externalId, key.externalId),
    eq(mappings.internalType, key.internalType),
  )
}

export async function findMappings(
  db: Database | Transaction,
  { mappings }: Tables,
  { integrationId, internalType }: { integrationId: number; internalType: string },
  externalIds: readonly string[],
): Promise<MappingRow[]> {
  if (externalIds.length === 0) return []
  return db
    .select()
    .from(mappings)
    .where(
      and(
        eq(mappings.integrationId, integrationId),
        eq(mappings.internalType, internalType),
        inArray(mappings.externalId, [...externalIds]),
      ),
    )
}

/** The oldest mapping of a model. */
export async function findMappingOfModel(
  db: Database | Transaction,
  { mappings }: Tables,
  model: { integrationId: number; internalType: string; internalId: string },
): Promise<MappingRow | null> {
  const [row] = await db
    .select()
    .from(mappings)
    .where(
      and(
        eq(mappings.integrationId, model.integrationId),
        eq(mappings.internalType, model.internalType),
        eq(mappings.internalId, model.internalId),
      ),
    )
    .orderBy(asc(mappings.id))
    .limit(1)
  return row ?? null
}

/** Claims an external id for a model. False: another claim of the same id and type was first. */
export async function claimMapping(
  db: Database | Transaction,
  { mappings }: Tables,
  key: MappingKey,
  internalId: string,
): Promise<boolean> {
  const rows = await db
    .insert(mappings)
    .values({ ...key, internalId })
    .onConflictDoNothing({ target: [mappings.integrationId, mappings.externalId, mappings.internalType] })
    .returning({ id: mappings.id })
  return rows.length === 1
}

/** Points an external id at this model, whoever held it. Returns who held it before; null: nobody. */
export async function pointMapping(
  tx: Transaction,
  tables: Tables,
  key: MappingKey,
  internalId: string,
): Promise<string | null> {
  const { mappings } = tables
  // Whoever claimed it may be gone by the time that its row is to be locked: then it is claimed again.
  while (!(await claimMapping(tx, tables, key, internalId))) {
    const [before] = await tx.select().from(mappings).where(isMapping(mappings, key)).for('update')
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
    .where(and(isMapping(mappings, key), eq(mappings.internalId, from)))
    .returning({ id: mappings.id })
  return rows.length === 1
}

/**
 * Those of the internal ids that have a mapping; a mapping of one integration only, where `integrationId` is given.
 *
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
        eq(mappings.internalType, internalType),
        inArray(mappings.internalId, [...internalIds]),
        integrationId === undefined ? undefined : eq(mappings.integrationId, integrationId),
      ),
    )
  return new Set(rows.map((row) => row.internalId))
}
