/** The ledger of spent idempotency keys, and how one is freed. Rule: docs/behaviour/requests.md, "The ledger". */

import { and, desc, eq, gte, isNotNull, isNull, lt, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { IntegrationLabels, IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem } from '../db/integrations-of.ts'
import { isOlderThan } from '../db/is-older-than.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IdempotencyKeyInUse, IdempotencyKeyNotFound, InvalidArgumentException } from '../framework/errors.ts'
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
import { recordAct } from '../observability/audit.ts'
import type { PriorCall } from '../providers/integration.ts'
import { forgetReservation, hasTakenEffect, idempotencyRecord, underWayUntil } from './idempotency.ts'
import { IDEMPOTENCY_STATES } from './idempotency-rules.ts'

/** Selects keys; all that is given must hold. */
export interface IdempotencyKeyFilter extends IntegrationSelection {
  /** Compared exactly. Needs `integrationId`. */
  readonly key?: string | undefined
  /** `unknown`: no stored request says that the call took effect; it may be under way. */
  readonly state?: (typeof IDEMPOTENCY_STATES)[number] | undefined
  /** Spent at this moment or after it. Default for filters other than `key`: 24 hours before `until`, or before now. */
  readonly since?: Date | undefined
  /** Spent before this moment. */
  readonly until?: Date | undefined
}

export interface ListIdempotencyKeys extends IdempotencyKeyFilter {
  /** Spent before the one of this id. */
  readonly after?: number | undefined
  /** The most that are listed, at least 1. */
  readonly limit?: number | undefined
}

export interface IdempotencyKeySummary extends IntegrationLabels {
  readonly id: number
  readonly integrationId: number
  readonly key: string
  readonly reservedAt: Date
  readonly state: (typeof IDEMPOTENCY_STATES)[number]
  /** The request that has its answer; null while that is unknown. */
  readonly priorRequestId: number | null
}

/** With what the call was answered, as it is stored: redacted. */
export type IdempotencyKeyDetail = IdempotencyKeySummary & Pick<PriorCall, 'priorState' | 'priorResponse'>

export interface ForgetIdempotencyKey {
  /** Who acts. */
  readonly by: string
  /** From where: docs/behaviour/audit.md. */
  readonly from?: string | undefined
  /** Also while a call with it may be under way: then the write may happen twice. */
  readonly force?: boolean | undefined
}

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listIdempotencyKeys(
  { db, tables, clock }: Framework,
  given: ListIdempotencyKeys = {},
): AsyncIterable<IdempotencyKeySummary> {
  const { after, limit, ...filter } = given
  const { integrationId, provider, owner, key, state, until } = filter
  checkIds({ integrationId, after, limit })
  checkTexts({ provider, key })
  checkOwnerFilter(owner)
  checkChoice('state', state, IDEMPOTENCY_STATES)
  checkPeriod(filter.since, until)
  if (key !== undefined && integrationId === undefined)
    throw new InvalidArgumentException('key', 'it is looked for in one integration: give integrationId, too')
  const isSearched = key === undefined && [integrationId, provider, owner, state].some((value) => value !== undefined)
  const since = filter.since ?? (isSearched ? searchedSince(until, clock.now()) : undefined)
  const read = async (page: Page) => (await pageOfKeys(db, tables, { ...filter, since }, page)).map(summaryOf)
  return newestFirst(read, { after, limit })
}

/** By the time at which they were spent, which an index has. */
function pageOfKeys(db: Database, tables: Tables, filter: IdempotencyKeyFilter, { below, limit }: Page) {
  const { idempotencyKeys: keys } = tables
  const { key, state, since, until } = filter
  return summaries(db, tables)
    .where(
      and(
        belongsToThem(tables, sql`${keys.integrationId}`, filter),
        key === undefined ? undefined : eq(keys.key, key),
        state === undefined ? undefined : (state === 'answered' ? isNotNull : isNull)(answerTo(tables)),
        since === undefined ? undefined : gte(keys.createdAt, since),
        until === undefined ? undefined : lt(keys.createdAt, until),
        below === undefined ? undefined : isOlderThan(keys, below),
      ),
    )
    .orderBy(desc(keys.createdAt), desc(keys.id))
    .limit(limit)
}

/** @throws IdempotencyKeyNotFound */
export async function getIdempotencyKey(framework: Framework, id: number): Promise<IdempotencyKeyDetail> {
  const { db, tables } = framework
  const [row] = isId(id) ? await summaries(db, tables).where(eq(tables.idempotencyKeys.id, id)) : []
  const prior = row === undefined ? null : await idempotencyRecord(framework, row.integrationId, row.key)
  if (row === undefined || prior === null) throw new IdempotencyKeyNotFound(id)
  const { priorState, priorResponse, priorRequestId } = prior
  return { ...summaryOf({ ...row, priorRequestId }), priorState, priorResponse }
}

/**
 * Frees a key, so that a call may use it again.
 *
 * @returns what it was
 * @throws IdempotencyKeyNotFound, InvalidArgumentException; IdempotencyKeyInUse while a call with it may be under way, unless forced
 */
export async function forgetIdempotencyKeyOf(
  framework: Framework,
  id: number,
  { by, from, force = false }: ForgetIdempotencyKey,
): Promise<IdempotencyKeyDetail> {
  checkTexts({ by: by ?? '', from })
  checkBooleans({ force })
  const key = await getIdempotencyKey(framework, id)
  const { db, tables } = framework
  const { integrationId, reservedAt } = key
  await db.transaction(async (tx) => {
    if (!force && key.state === 'unknown') await refuseInUse(framework, tx, id)
    const isGone = !(await forgetReservation(tx, tables, eq(tables.idempotencyKeys.id, id), { by }))
    if (isGone) throw new IdempotencyKeyNotFound(id)
    const detail = `reserved at ${reservedAt.toISOString()}, ${key.state}`
    // Not the key itself: a host may make keys of private data.
    const target = `idempotency-key:${id}`
    await recordAct(tx, tables, integrationId, { by, from, action: 'forget-idempotency-key', target, detail })
  })
  return key
}

/**
 * Locks the key's row, so that no caller takes its turn meanwhile.
 *
 * @throws IdempotencyKeyInUse, IdempotencyKeyNotFound
 */
async function refuseInUse(framework: Framework, tx: Transaction, id: number): Promise<void> {
  const { idempotencyKeys: keys } = framework.tables
  await tx.select({ id: keys.id }).from(keys).where(eq(keys.id, id)).for('update')
  const until = await underWayUntil(framework, tx, id)
  if (until === null) throw new IdempotencyKeyNotFound(id)
  if (until > framework.clock.now()) throw new IdempotencyKeyInUse(id, until)
}

function summaryOf(row: Omit<IdempotencyKeySummary, 'state'>): IdempotencyKeySummary {
  return { ...row, state: row.priorRequestId === null ? 'unknown' : 'answered' }
}

function summaries(db: Database, tables: Tables) {
  const { idempotencyKeys: keys, integrations } = tables
  return db
    .select({
      id: keys.id,
      integrationId: keys.integrationId,
      provider: integrations.provider,
      integrationName: integrations.name,
      key: keys.key,
      reservedAt: keys.createdAt,
      priorRequestId: sql<number | null>`${answerTo(tables)}`.mapWith((id: unknown) =>
        id === null ? null : Number(id),
      ),
    })
    .from(keys)
    .innerJoin(integrations, eq(integrations.id, keys.integrationId))
}

/** Id of the newest request that has a key's answer, asked by the index on the key. */
function answerTo(tables: Tables) {
  const { requests } = tables
  return sql`(select ${requests.id} from ${requests} where ${hasTakenEffect(tables)} order by ${requests.id} desc limit 1)`
}
