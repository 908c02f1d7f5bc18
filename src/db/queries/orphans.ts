/** Statements that look for rows of a host's without a mapping. Rule: docs/behaviour/mappings.md, "Orphans". */
import { and, eq, inArray } from 'drizzle-orm'
import type { Database, Transaction } from '../client.ts'
import type { Tables } from '../schema/tables.ts'

/** Those of the models' ids that something is mapped to; by one integration only where it is given. */
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
