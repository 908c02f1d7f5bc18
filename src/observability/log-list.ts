/** The operation logs as they are listed, and as a tree. Rule: docs/behaviour/operations.md, "Looking". */

import type { SQL } from 'drizzle-orm'
import { and, asc, desc, eq, getTableColumns, gte, isNull, lt, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IntegrationLabels, IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem, bigints, fewIntegrations } from '../db/integrations-of.ts'
import { isOlderThan } from '../db/is-older-than.ts'
import { newestOfEach } from '../db/newest-of-each.ts'
import { LOG_DIRECTIONS } from '../db/schema/logs-table.ts'
import type { LogRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { LogNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Page } from '../framework/list-filter.ts'
import {
  checkBooleans,
  checkChoice,
  checkIds,
  checkPeriod,
  checkTexts,
  newestFirst,
  searchedSince,
} from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'

/** Selects rows; all that is given must hold. */
export interface LogFilter extends IntegrationSelection {
  readonly operation?: string | undefined
  readonly status?: string | undefined
  readonly direction?: LogRow['direction'] | undefined
  /** What the operation was about: the external id, as stored. */
  readonly externalId?: string | undefined
  /** True: parts of other operations, too. Default false. */
  readonly parts?: boolean | undefined
  /** Begun at this moment or after it. Default for filters without an index: 24 hours before `until`, or before now. */
  readonly since?: Date | undefined
  /** Begun before this moment. */
  readonly until?: Date | undefined
}

export interface ListLogs extends LogFilter {
  /** Older than the one of this id. */
  readonly after?: number | undefined
  /** The most that are listed, at least 1. */
  readonly limit?: number | undefined
}

/** An operation, without its metadata and result. */
export interface LogSummary extends Omit<LogRow, 'metadata' | 'resultData'>, IntegrationLabels {
  /** Whether other operations are part of it. */
  readonly hasParts: boolean
}

/** An operation and its parts, oldest first. */
export interface LogNode extends LogSummary {
  readonly parts: readonly LogNode[]
  /** It may have parts that are not shown: the tree is cut here. */
  readonly isCut: boolean
}

/** With the metadata and the result as they are stored: redacted. */
export interface LogTree extends LogNode, Pick<LogRow, 'metadata' | 'resultData'> {
  /** Operations that are shown, this one too. */
  readonly shown: number
}

/** Whose operations may be shown. An operation of another integration may be part of the one that is asked for; it is left out then. */
export type LogTreeOptions = Pick<IntegrationSelection, 'provider' | 'owner'>

/** Below the operation that is asked for. */
const MAX_DEPTH = 10
const MAX_NODES = 1_000

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listLogs(framework: Framework, given: ListLogs = {}): AsyncIterable<LogSummary> {
  const { after, limit, ...filter } = given
  const { integrationId, provider, owner, operation, status, direction, externalId, parts, since, until } = filter
  checkIds({ integrationId, after, limit })
  checkTexts({ provider, operation, status, externalId })
  checkChoice('direction', direction, LOG_DIRECTIONS)
  checkBooleans({ parts })
  checkOwnerFilter(owner)
  checkPeriod(since, until)
  return logsOf(framework, filter, { after, limit })
}

async function* logsOf(
  { db, tables, clock }: Framework,
  filter: LogFilter,
  range: { readonly after: number | undefined; readonly limit: number | undefined },
): AsyncGenerator<LogSummary> {
  const few = await fewIntegrations(db, tables, filter)
  const since = filter.since ?? (hasIndex(filter, few !== null) ? undefined : searchedSince(filter.until, clock.now()))
  yield* newestFirst((page) => pageOfLogs(db, tables, { ...filter, since }, few, page), range)
}

/** Whether an index leads to the rows: otherwise rows are looked through, the newest first. */
function hasIndex({ provider, owner, operation, status, direction, externalId }: LogFilter, isOfFew: boolean): boolean {
  const led = isOfFew ? [] : [provider, owner, operation]
  return [status, direction, externalId, ...led].every((value) => value === undefined)
}

/**
 * Of few integrations: the newest of each operation that they have, by the index that leads with both. Of all: by the time.
 *
 * @param few ids of the integrations; null: many, or all
 */
export function pageOfLogs(db: Database, tables: Tables, filter: LogFilter, few: readonly number[] | null, page: Page) {
  const { logs } = tables
  const { below, limit } = page
  const conditions = and(sql`true`, ...conditionsOf(logs, filter))
  if (few === null) {
    const newest = sql`order by ${logs.createdAt} desc, ${logs.id} desc limit ${limit}`
    const ofAll = and(
      conditions,
      filter.operation === undefined ? undefined : eq(logs.operation, filter.operation),
      belongsToThem(tables, sql`${logs.integrationId}`, filter),
      below === undefined ? undefined : isOlderThan(logs, below),
    )
    return summaries(db, tables)
      .where(sql`${logs.id} in (select ${logs.id} from ${logs} where ${ofAll} ${newest})`)
      .orderBy(desc(logs.createdAt), desc(logs.id))
  }
  const groups = {
    from: sql`(${operationsOf(logs, few, filter.operation)}) o`,
    led: [
      [logs.integrationId, sql`o.integration_id`],
      [logs.operation, sql`o.operation`],
    ],
    where: conditions,
  } as const
  return summaries(db, tables)
    .where(sql`${logs.id} in (${newestOfEach(logs, groups, 'id', page)})`)
    .orderBy(desc(logs.id))
}

/** The operations that these integrations have: each is found by one step over the index, however many rows it has. */
function operationsOf(logs: Tables['logs'], few: readonly number[], operation: string | undefined): SQL {
  const ids = sql`unnest(${bigints(few)}) i (integration_id)`
  if (operation !== undefined) return sql`select i.integration_id, ${operation}::text as operation from ${ids}`
  const next = (of: SQL, after: SQL) => sql`
    select l.operation from ${logs} l where l.integration_id = ${of} ${after} order by l.operation limit 1`
  return sql`
    with recursive found (integration_id, operation) as (
      select i.integration_id, (${next(sql`i.integration_id`, sql``)}) from ${ids}
      union all
      select found.integration_id, (${next(sql`found.integration_id`, sql`and l.operation > found.operation`)})
      from found where found.operation is not null
    )
    select integration_id, operation from found where operation is not null`
}

function conditionsOf(logs: Tables['logs'], filter: LogFilter): readonly (SQL | undefined)[] {
  const { status, direction, externalId, parts = false, since, until } = filter
  return [
    parts ? undefined : isNull(logs.parentId),
    status === undefined ? undefined : eq(logs.status, status),
    direction === undefined ? undefined : eq(logs.direction, direction),
    externalId === undefined ? undefined : eq(logs.externalId, externalId),
    since === undefined ? undefined : gte(logs.createdAt, since),
    until === undefined ? undefined : lt(logs.createdAt, until),
  ]
}

/**
 * An operation with all that was part of it: ten levels and 1,000 operations at most, level by level.
 *
 * @throws LogNotFound, InvalidArgumentException
 */
export async function logTree({ db, tables }: Framework, id: number, of: LogTreeOptions = {}): Promise<LogTree> {
  checkTexts({ provider: of.provider })
  checkOwnerFilter(of.owner)
  const { logs, integrations } = tables
  const isShown = belongsToThem(tables, sql`${logs.integrationId}`, of)
  const [found] = isId(id)
    ? await db
        .select({ ...summaryColumns(tables), metadata: logs.metadata, resultData: logs.resultData })
        .from(logs)
        .innerJoin(integrations, eq(integrations.id, logs.integrationId))
        .where(and(eq(logs.id, id), isShown))
    : []
  if (found === undefined) throw new LogNotFound(id)

  const { metadata, resultData, ...root } = found
  const tree = growing(root)
  let shown = 1
  for (let depth = 1, level = [tree]; level.length > 0; depth++) {
    const parents = new Map(level.filter(({ hasParts }) => hasParts).map((node) => [node.id, node]))
    if (parents.size === 0) break
    const room = depth > MAX_DEPTH ? 0 : MAX_NODES - shown
    const rows = await partsOf(db, tables, [...parents.keys()], isShown, room + 1)
    const parts = rows.slice(0, room).map(growing)
    for (const part of parts) parents.get(part.parentId ?? 0)?.parts.push(part)
    // In the order of their parents: those of the first one that is not shown, and of all behind it, may be missing.
    const firstCut = rows[room]?.parentId ?? Number.POSITIVE_INFINITY
    for (const node of parents.values()) node.isCut = node.id >= firstCut
    shown += parts.length
    level = parts
  }
  // As where runs are shown: a bookmark is a provider's text, such as the address of its next page.
  return { ...tree, metadata: withoutBookmark(metadata), resultData, shown }
}

type GrowingNode = LogSummary & { readonly parts: GrowingNode[]; isCut: boolean }

function growing(summary: LogSummary): GrowingNode {
  return { ...summary, parts: [], isCut: false }
}

function partsOf(
  db: Database,
  tables: Tables,
  parents: readonly number[],
  isShown: SQL | undefined,
  limit: number,
): Promise<LogSummary[]> {
  const { logs } = tables
  return summaries(db, tables)
    .where(and(sql`${logs.parentId} = any(${bigints(parents)})`, isShown))
    .orderBy(asc(logs.parentId), asc(logs.id))
    .limit(limit)
}

function withoutBookmark(metadata: unknown): unknown {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return metadata
  const { bookmark: _bookmark, ...rest } = metadata as { bookmark?: unknown }
  return rest
}

function summaries(db: Database, tables: Tables) {
  const { logs, integrations } = tables
  return db.select(summaryColumns(tables)).from(logs).innerJoin(integrations, eq(integrations.id, logs.integrationId))
}

function summaryColumns({ logs, integrations }: Tables) {
  const { metadata: _metadata, resultData: _resultData, ...columns } = getTableColumns(logs)
  return {
    ...columns,
    provider: integrations.provider,
    integrationName: integrations.name,
    hasParts: sql<boolean>`exists (select from ${logs} part where part.parent_id = ${logs}.id)`,
  }
}
