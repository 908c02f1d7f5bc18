/** Statements over the request log. */
import type { Database } from '../client.ts'
import type { Tables } from '../schema/tables.ts'

/** Writes the row of one attempt. */
export async function insertRequest(
  db: Database,
  { requests }: Tables,
  values: typeof requests.$inferInsert,
): Promise<number> {
  const [row] = await db.insert(requests).values(values).returning({ id: requests.id })
  return (row as { id: number }).id
}
