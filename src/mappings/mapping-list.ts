/** Mappings as they are listed, from either side. Rule: docs/behaviour/mappings.md, "Looking". */

import type { SQL } from 'drizzle-orm'
import { and, desc, eq, getTableColumns, gte, lt, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem, isOneOfThem, newestSince } from '../db/integrations-of.ts'
import type { IntegrationRow, MappingRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, MappingNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Page } from '../framework/list-filter.ts'
import { checkIds, checkPeriod, checkTexts } from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'

/** Selects mappings; all that is given must hold. */
export interface MappingFilter extends IntegrationSelection {
  /** Compared exactly. */
  readonly externalId?: string | undefined
  /** The model's name in `models`. Needs an integration, a provider, an owner, an external or an internal id. */
  readonly internalType?: string | undefined
  /** Key of the model's row, as text. Needs `internalType`. */
  readonly internalId?: string | undefined
  /** Made at this moment or after it. */
  readonly since?: Date | undefined
  /** Made before this moment. */
  readonly until?: Date | undefined
}

export interface ListMappings extends MappingFilter {
  /** Made before the one of this id. */
  readonly after?: number | undefined
  /** The most that are listed, at least 1. */
  readonly limit?: number | undefined
}

export interface MappingSummary {
  readonly id: number
  readonly integrationId: number
  readonly provider: IntegrationRow['provider']
  readonly integrationName: IntegrationRow['name']
  readonly externalId: string
  /** The model's name in `models`. */
  readonly internalType: string
  /** Key of the model's row, as text. */
  readonly internalId: string
  /** The record whose work made it, such as `webhook:4711`; null: none's. */
  readonly origin: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listMappings({ db, tables }: Framework, given: ListMappings = {}): AsyncIterable<MappingSummary> {
  const { after, limit, ...filter } = given
  const { integrationId, provider, owner, externalId, internalType, internalId } = filter
  checkIds({ integrationId, after, limit })
  checkTexts({ provider, externalId, internalType, internalId })
  checkOwnerFilter(owner)
  checkPeriod(filter.since, filter.until)
  if (internalId !== undefined && internalType === undefined)
    throw new InvalidArgumentException('internalId', 'it is a key of one model: give internalType, too')
  const narrowing = [integrationId, provider, owner, externalId, internalId]
  if (internalType !== undefined && narrowing.every((value) => value === undefined))
    throw new InvalidArgumentException(
      'internalType',
      'it is looked for in one integration, provider or owner, or with one external or internal id: give one of them, too',
    )
  // Of one id an index leads to the rows.
  const since = externalId === undefined && internalId === undefined ? filter.since : undefined
  return newestSince({ db, tables }, tables.mappings, since, { after, limit }, (page, from) =>
    pageOfMappings(db, tables, filter, page, from),
  )
}

/**
 * A row's mappings are found by the index of its model and key; else each integration is asked for its newest.
 *
 * @param from an id below which no row of the period is
 */
export function pageOfMappings(
  db: Database,
  tables: Tables,
  filter: MappingFilter,
  { below, limit }: Page,
  from?: number,
) {
  const { mappings, integrations } = tables
  const { externalId, internalType, internalId, since, until } = filter
  const conditions = and(
    externalId === undefined ? undefined : eq(mappings.externalId, externalId),
    internalType === undefined ? undefined : eq(mappings.internalType, internalType),
    internalId === undefined ? undefined : eq(mappings.internalId, internalId),
    since === undefined ? undefined : gte(mappings.createdAt, since),
    until === undefined ? undefined : lt(mappings.createdAt, until),
    from === undefined ? undefined : gte(mappings.id, from),
    below === undefined ? undefined : lt(mappings.id, below),
  )
  const isOneOf = isOneOfThem(tables, filter)
  const isDirect = internalId !== undefined || (externalId === undefined && isOneOf === undefined)
  const newest = sql`order by ${mappings.id} desc limit ${limit}`
  const ofEach = and(sql`${mappings.integrationId} = ${integrations.id}`, conditions)
  const where = isDirect
    ? and(conditions, belongsToThem(tables, sql`${mappings.integrationId}`, filter))
    : sql`${mappings.id} in (
        select n.id from ${integrations} cross join lateral (
          select ${mappings.id} from ${mappings} where ${ofEach} ${newest}) n
        where ${isOneOf ?? sql`true`} order by n.id desc limit ${limit})`
  return summaries(db, tables).where(where).orderBy(desc(mappings.id)).limit(limit)
}

/** @throws MappingNotFound */
export async function getMapping({ db, tables }: Framework, id: number): Promise<MappingSummary> {
  return requireMapping(db, tables, id)
}

/** @throws MappingNotFound */
export async function requireMapping(db: Database | Transaction, tables: Tables, id: number): Promise<MappingSummary> {
  const [mapping] = isId(id) ? await summaries(db, tables).where(eq(tables.mappings.id, id)) : []
  if (mapping === undefined) throw new MappingNotFound(id)
  return mapping
}

/** The row alone, locked until the transaction ends. @throws MappingNotFound */
export async function lockMapping(tx: Transaction, { mappings }: Tables, id: number): Promise<MappingRow> {
  const isIt: SQL = eq(mappings.id, id)
  const [mapping] = isId(id) ? await tx.select().from(mappings).where(isIt).for('update') : []
  if (mapping === undefined) throw new MappingNotFound(id)
  return mapping
}

function summaries(db: Database | Transaction, { mappings, integrations }: Tables) {
  return db
    .select({
      ...getTableColumns(mappings),
      provider: integrations.provider,
      integrationName: integrations.name,
    })
    .from(mappings)
    .innerJoin(integrations, eq(integrations.id, mappings.integrationId))
}
