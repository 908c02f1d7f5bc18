/** Any Drizzle table of the host as a mapped model. */
import { asc, eq, getTableName, gt, inArray } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import { getTableConfig } from 'drizzle-orm/pg-core'
import { InvalidArgumentException } from '../core/errors.ts'
import type { Database } from '../db/client.ts'
import type { MappedModel } from '../providers/mapped-model.ts'

export interface MappedTableOptions {
  /** Stored in `internal_type`. Default: the table's name. */
  readonly type?: string
  /** The key column's property. Default: the primary key. */
  readonly key?: string
  /** The column of when a row was made, shown for orphans. Default: `createdAt`, if there is one. */
  readonly createdAt?: string
  /** The table's own database. Default: the framework's, so that a row and its mapping are written together. */
  readonly db?: Database
}

/** @throws InvalidArgumentException for a composite or missing key */
export function mappedTable<Table extends PgTable>(
  table: Table,
  options: MappedTableOptions = {},
): MappedModel<Table['$inferSelect'], Partial<Table['$inferInsert']>> {
  type Row = Table['$inferSelect']
  const { property, column } = keyOf(table, options.key)
  const type = options.type ?? getTableName(table)
  const createdAt = (table as unknown as Record<string, PgColumn | undefined>)[options.createdAt ?? 'createdAt']
  // Drizzle's builders are typed by the concrete table; here any table will do.
  const on = (tx: unknown): Database => options.db ?? (tx as Database)
  const anyTable = table as PgTable
  const keyValue = (id: string): string | number => (column.dataType === 'number' ? Number(id) : id)
  const first = (rows: readonly unknown[]): Row => rows[0] as Row

  return {
    type,
    of: (rowOrId) => ({
      type,
      id: String(typeof rowOrId === 'object' ? (rowOrId as Record<string, unknown>)[property] : rowOrId),
    }),
    find: async (tx, id) =>
      ((
        await on(tx)
          .select()
          .from(anyTable)
          .where(eq(column, keyValue(id)))
      )[0] as Row | undefined) ?? null,
    findMany: async (tx, ids) =>
      ids.length === 0
        ? []
        : ((await on(tx)
            .select()
            .from(anyTable)
            .where(inArray(column, ids.map(keyValue)))) as Row[]),
    create: async (tx, attributes) =>
      first(
        await on(tx)
          .insert(anyTable)
          .values(attributes as never)
          .returning(),
      ),
    update: async (tx, id, attributes) =>
      first(
        await on(tx)
          .update(anyTable)
          .set(attributes as never)
          .where(eq(column, keyValue(id)))
          .returning(),
      ),
    scan: async (tx, afterId, limit) => {
      const rows = await on(tx)
        .select({ id: column, ...(createdAt === undefined ? {} : { createdAt }) })
        .from(anyTable)
        .where(afterId === null ? undefined : gt(column, keyValue(afterId)))
        .orderBy(asc(column))
        .limit(limit)
      return rows.map((row) => ({ id: String(row.id), createdAt: (row as { createdAt?: Date }).createdAt ?? null }))
    },
    ...(options.db === undefined
      ? {}
      : {
          remove: async (id: string) => {
            await (options.db as Database).delete(anyTable).where(eq(column, keyValue(id)))
          },
        }),
  }
}

function keyOf(table: PgTable, property: string | undefined): { property: string; column: PgColumn } {
  const { columns, name, primaryKeys } = getTableConfig(table)
  const named = Object.entries(table as unknown as Record<string, unknown>).filter(([, value]) =>
    columns.includes(value as PgColumn),
  ) as [string, PgColumn][]
  const found = named.filter(([key, column]) => (property === undefined ? column.primary : key === property))
  const [only] = found
  if (only === undefined || found.length > 1 || (property === undefined && primaryKeys.length > 0))
    throw new InvalidArgumentException(
      'table',
      `"${name}" needs one key column (composite keys can't be mapped); name it by {key}`,
    )
  return { property: only[0], column: only[1] }
}
