/** Leases of pumps' claims, as tests look at them. */
import { and, eq, sql } from 'drizzle-orm'
import type { LeaseOf } from '../../src/claims/lease-queries.ts'
import type { Framework } from '../../src/framework/context.ts'

/** Whether the holder of a claim has said lately that it lives. */
export async function isServed(
  { db, tables: { cache } }: Pick<Framework, 'db' | 'tables'>,
  { prefix, claim }: LeaseOf,
): Promise<boolean> {
  const rows = await db
    .select({ key: cache.key })
    .from(cache)
    .where(and(eq(cache.key, `${prefix}:${claim}`), sql`${cache.expiresAt} > clock_timestamp()`))
  return rows.length > 0
}
