/** Any Drizzle table of the host as a mapped model, and whether the tables of the models fit. Rule: docs/behaviour/mappings.md. */

import type { SQL } from 'drizzle-orm'
import { and, asc, eq, getTableName, gt, inArray, isNotNull, sql } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import { getTableConfig } from 'drizzle-orm/pg-core'
import { unnamed } from '../config/model-names.ts'
import type { Database } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { errorLine } from '../framework/logger.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { MappedModel } from '../providers/mapped-model.ts'

export interface MappedTableOptions {
  /** Stored in `internal_type`. Default: the name in `models`; before it is registered there, the table's name. */
  readonly type?: string
  /** The key column's property; its values must be unique. Default: the primary key. */
  readonly key?: string
  /** The property of the column that says when a row was made, shown for orphans. Default: `createdAt`, if there is one. */
  readonly createdAt?: string
  /** The table's own database. Default: the framework's, so that a row and its mapping are written together. */
  readonly db?: Database
}

/** @throws InvalidArgumentException for a composite or missing key, one whose values are no texts or numbers, or a missing column */
export function mappedTable<Table extends PgTable>(
  table: Table,
  options: MappedTableOptions = {},
): MappedModel<Table['$inferSelect'], Partial<Table['$inferInsert']>> {
  type Row = Table['$inferSelect']
  const { property, column } = keyColumn(table, options.key)
  let type = options.type ?? getTableName(table)
  const createdAt = createdAtOf(table, options.createdAt)
  // Drizzle's builders are typed by the concrete table; here any table will do.
  const on = (tx: unknown): Database => options.db ?? (tx as Database)
  const anyTable = table as PgTable
  /** Null: no row has it. Postgres would refuse the statement, and with it the other ids. */
  const keyValue = (id: string): string | number | null => {
    const range = INTEGERS[column.getSQLType()]
    if (column.dataType === 'bigint' && range !== undefined) return isWithin(id, range) ? id : null
    if (column.getSQLType() === 'uuid') return UUID.test(id) ? id : null
    if (column.dataType !== 'number') return id
    const key = id.trim() === '' ? Number.NaN : Number(id)
    if (Number.isNaN(key) || (range !== undefined && !isWithin(String(key), range))) return null
    // Rounded, it would be another row's.
    if (Number.isInteger(key) && !Number.isSafeInteger(key))
      throw new InvalidArgumentException(
        'id',
        `whole numbers of at most 2^53 - 1 are allowed for a column in mode "number", ${id} was given; use mode "bigint"`,
      )
    return key
  }
  const isRow = (id: string): SQL => {
    const key = keyValue(id)
    return key === null ? sql`false` : eq(column, key)
  }
  const first = (rows: readonly unknown[]): Row => rows[0] as Row

  const model: MappedModel<Row, Partial<Table['$inferInsert']>> = {
    get type() {
      return type
    },
    of(rowOrId) {
      const isWhole = typeof rowOrId === 'object' && rowOrId !== null
      const key = isWhole ? (rowOrId as Record<string, unknown>)[property] : rowOrId
      if (key === undefined || key === null)
        throw new InvalidArgumentException('model', `a row with "${property}", or its key, is allowed; it is missing`)
      return { type, id: String(key) }
    },
    find: async (tx, id) => {
      const [row] = await on(tx).select().from(anyTable).where(isRow(id))
      return (row as Row | undefined) ?? null
    },
    findMany: async (tx, ids) => {
      const keys = ids.map(keyValue).filter((key) => key !== null)
      if (keys.length === 0) return []
      return (await on(tx).select().from(anyTable).where(inArray(column, keys))) as Row[]
    },
    create: async (tx, attributes) =>
      first(
        await on(tx)
          .insert(anyTable)
          .values(attributes as never)
          .returning(),
      ),
    update: async (tx, id, attributes) => {
      const isChange = Object.values(attributes).some((value) => value !== undefined)
      // Drizzle refuses an update that sets nothing.
      if (!isChange) return first(await on(tx).select().from(anyTable).where(isRow(id)))
      return first(
        await on(tx)
          .update(anyTable)
          .set(attributes as never)
          .where(isRow(id))
          .returning(),
      )
    },
    scan: async (tx, afterId, limit) => {
      const rows = await on(tx)
        .select({ id: column, ...(createdAt === undefined ? {} : { createdAt }) })
        .from(anyTable)
        // A row without a key is mapped to nothing. `order by` and `>` of one column use the same collation.
        .where(and(isNotNull(column), afterId === null ? undefined : gt(column, keyValue(afterId))))
        .orderBy(asc(column))
        .limit(limit)
      return rows.map((row) => ({
        id: String(row.id),
        createdAt: columnDate((row as { createdAt?: unknown }).createdAt),
      }))
    },
    problems: (tx) => missingParts(on(tx), anyTable),
    ...(options.db === undefined
      ? {}
      : {
          remove: async (id: string) => {
            await (options.db as Database).delete(anyTable).where(isRow(id))
          },
        }),
  }
  if (options.type !== undefined) return model
  return unnamed(model, (chosen) => {
    type = chosen
  })
}

/** Postgres' integers by their number of bits: what is outside is in no row. https://www.postgresql.org/docs/current/datatype-numeric.html */
const INTEGERS: Readonly<Record<string, number>> = {
  smallint: 16,
  smallserial: 16,
  integer: 32,
  serial: 32,
  bigint: 64,
  bigserial: 64,
}

/** As Postgres reads them: https://www.postgresql.org/docs/current/datatype-uuid.html */
const UUID = /^(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}$|^\{(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}\}$/i

function isWithin(text: string, bits: number): boolean {
  const digits = /^[+-]?\d+$/.test(text) ? text.replace(/^\+/, '') : null
  return digits !== null && BigInt.asIntN(bits, BigInt(digits)) === BigInt(digits)
}

/** By the catalogue: rights to read or write are not looked at. */
async function missingParts(db: Database, table: PgTable): Promise<string[]> {
  const { name, schema, columns } = getTableConfig(table)
  const shown = schema === undefined ? name : `${schema}.${name}`
  const path = [...(schema === undefined ? [] : [schema]), name]
    .map((part) => `"${part.replaceAll('"', '""')}"`)
    .join('.')
  const rows = await db.execute<{ found: boolean; columns: string[] | null }>(sql`
    select to_regclass(${path}) is not null as found,
           (select json_agg(a.attname) from pg_attribute a
            where a.attrelid = to_regclass(${path}) and a.attnum > 0 and not a.attisdropped) as columns`)
  const [row] = rows
  if (row?.found !== true) return [`the table "${shown}" does not exist`]
  const there = new Set(row.columns ?? [])
  const missing = columns.map((column) => column.name).filter((column) => !there.has(column))
  if (missing.length === 0) return []
  return [`the table "${shown}" lacks the column${missing.length === 1 ? '' : 's'} ${missing.join(', ')}`]
}

/** Types whose values `String(value)` keeps apart. Those of `customType()` are the host's own. */
const KEY_TYPES: readonly string[] = ['string', 'number', 'bigint', 'custom']

function keyColumn(table: PgTable, property: string | undefined): { property: string; column: PgColumn } {
  const { name, primaryKeys } = getTableConfig(table)
  const found = columnsOf(table).filter(([key, column]) => (property === undefined ? column.primary : key === property))
  const [only] = found
  if (only === undefined || found.length > 1 || (property === undefined && primaryKeys.length > 0))
    throw new InvalidArgumentException(
      'table',
      `"${name}" needs one key column (composite keys can't be mapped); name it by {key}`,
    )
  const [key, column] = only
  if (!KEY_TYPES.includes(column.dataType))
    throw new InvalidArgumentException(
      'table',
      `the key of "${name}" must hold texts or numbers, "${key}" holds what Drizzle calls ${column.dataType}; a date column is a text with {mode: 'string'}`,
    )
  return { property: key, column }
}

function createdAtOf(table: PgTable, property: string | undefined): PgColumn | undefined {
  const found = columnsOf(table).find(([key]) => key === (property ?? 'createdAt'))
  if (found === undefined && property !== undefined)
    throw new InvalidArgumentException('table', `"${getTableName(table)}" has no column "${property}" for {createdAt}`)
  return found?.[1]
}

/** Each with the property that it has in Drizzle's rows. */
function columnsOf(table: PgTable): [string, PgColumn][] {
  const { columns } = getTableConfig(table)
  return Object.entries(table as unknown as Record<string, unknown>).filter(([, value]) =>
    columns.includes(value as PgColumn),
  ) as [string, PgColumn][]
}

/** For any mode of the column. Drizzle, too, reads a timestamp without an offset as UTC. */
function columnDate(value: unknown): Date | null {
  const hasOffset = /\d:\d.*(Z|[+-]\d\d(:?\d\d)?)$/i
  const moment = typeof value === 'string' ? new Date(hasOffset.test(value) ? value : `${value}Z`) : value
  // Postgres' infinity is no JS date.
  return moment instanceof Date && !Number.isNaN(moment.getTime()) ? moment : null
}

/** Of one model's check. */
const LIMIT_SECONDS = 10

export interface ModelProblem {
  readonly model: string
  /** What is missing, in words. */
  readonly problem: string
}

/** Whether the tables of the host's models are as the models know them. Never throws: a model that can't be read is a problem, too. */
export async function modelProblems(framework: Framework): Promise<ModelProblem[]> {
  const found = await Promise.all(
    [...framework.models].map(async ([model, mapped]) =>
      (await problemsOf(framework, mapped)).map((problem) => ({ model, problem })),
    ),
  )
  return found.flat()
}

/** At a worker's start: the lines say in advance which listeners will fail, and why. */
export async function reportUnfitModels(framework: Framework): Promise<void> {
  for (const { model, problem } of await modelProblems(framework))
    framework.logger.error(
      { event: 'worker.model_unfit', model, problem },
      "a model of the host does not fit its table: listeners that use it fail until the host's own migrations are applied",
    )
}

async function problemsOf({ modelDb }: Framework, model: MappedModel): Promise<readonly string[]> {
  const late = () => new Error(`no answer within ${LIMIT_SECONDS} s`)
  try {
    return await withTimeLimit(LIMIT_SECONDS, late, async () => {
      if (model.problems !== undefined) return model.problems(modelDb)
      // One that a host wrote itself is asked for its first row: what it reads from is there, or it throws.
      await model.scan(modelDb, null, 1)
      return []
    })
  } catch (error) {
    return [`it can't be read: ${errorLine(error, 300)}`]
  }
}
