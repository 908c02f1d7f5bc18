/** The request log as it is listed and shown. Rule: docs/behaviour/requests.md, "Looking". */

import type { SQL } from 'drizzle-orm'
import { and, asc, desc, eq, getTableColumns, gte, isNull, lt, or, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IntegrationLabels, IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem, bigints, fewIntegrations } from '../db/integrations-of.ts'
import { isOlderThan } from '../db/is-older-than.ts'
import { FAILURE_CLASSES, isUnclassed } from '../db/schema/requests-table.ts'
import type { RequestRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, RequestNotFound } from '../framework/errors.ts'
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
import type { FailureClass } from './failure-class-rules.ts'

export const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const
export type StatusClass = (typeof STATUS_CLASSES)[number]

/** Selects rows; all that is given must hold. */
export interface RequestFilter extends IntegrationSelection {
  /** A part of the endpoint or URL path, in any case. */
  readonly endpoint?: string | undefined
  /** HTTP method or SDK operation, in any case. */
  readonly operation?: string | undefined
  readonly failureClass?: FailureClass | undefined
  readonly success?: boolean | undefined
  /** 100 to 599, or all of a hundred, such as `4xx`. */
  readonly status?: number | StatusClass | undefined
  /** The provider's own id of the request. */
  readonly providerRequestId?: string | undefined
  /** The host's record that the call was about. */
  readonly relatedTo?: { readonly type: string; readonly id: number } | undefined
  readonly idempotencyKey?: string | undefined
  /** Id of a row: it and all that repeat it, or that it repeats. */
  readonly chain?: number | undefined
  /** Made at this moment or after it. Default for filters without an index: 24 hours before `until`, or before now. */
  readonly since?: Date | undefined
  /** Made before this moment. */
  readonly until?: Date | undefined
}

export interface ListRequests extends RequestFilter {
  /** Older than the one of this id. */
  readonly after?: number | undefined
  /** The most that are listed, at least 1. */
  readonly limit?: number | undefined
}

/** An attempt, without bodies. */
export type RequestSummary = Omit<RequestRow, 'requestData' | 'responseData' | 'requestHash'> & IntegrationLabels

/** With the bodies as they are stored: redacted, and cut. */
export interface RequestDetail
  extends RequestSummary,
    Pick<RequestRow, 'requestData' | 'responseData' | 'requestHash'> {
  /** Of the same call, this one too, oldest first: what it repeats, what repeats that, and so on. */
  readonly attempts: readonly RequestSummary[]
  /** There are more attempts than are shown. */
  readonly attemptsCut: boolean
}

const MAX_ATTEMPTS = 1_000
/** Rows between a row and the one that it repeats in the end: a caller may name any as `retryOf`. */
const MAX_STEPS_BACK = 100

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listRequests(framework: Framework, given: ListRequests = {}): AsyncIterable<RequestSummary> {
  const { after, limit, ...filter } = given
  const { integrationId, provider, owner, endpoint, operation, providerRequestId, idempotencyKey, chain } = filter
  checkIds({ integrationId, chain, after, limit })
  checkTexts({ provider, endpoint, operation, providerRequestId, idempotencyKey })
  checkOwnerFilter(owner)
  checkBooleans({ success: filter.success })
  checkChoice('failureClass', filter.failureClass, FAILURE_CLASSES)
  checkStatus(filter.status)
  checkRelated(filter.relatedTo)
  checkPeriod(filter.since, filter.until)
  return requestsOf(framework, filter, { after, limit })
}

function checkStatus(status: RequestFilter['status']): void {
  const isStatus = typeof status === 'number' && Number.isInteger(status) && status >= 100 && status <= 599
  if (status !== undefined && !isStatus && !STATUS_CLASSES.includes(status as StatusClass))
    throw new InvalidArgumentException(
      'status',
      `a whole number from 100 to 599, or one of ${STATUS_CLASSES.join(', ')}, is allowed, ${String(status)} was given`,
    )
}

function checkRelated(related: RequestFilter['relatedTo']): void {
  if (related === undefined) return
  checkTexts({ 'relatedTo.type': related?.type ?? '' })
  if (!Number.isSafeInteger(related.id))
    throw new InvalidArgumentException('relatedTo.id', `a whole number is allowed, ${String(related.id)} was given`)
}

async function* requestsOf(
  { db, tables, clock }: Framework,
  filter: RequestFilter,
  range: { readonly after: number | undefined; readonly limit: number | undefined },
): AsyncGenerator<RequestSummary> {
  // A failure class and success at once.
  if (classesOf(filter).length === 0) return
  const few = await fewIntegrations(db, tables, filter)
  const since = filter.since ?? (hasIndex(filter, few !== null) ? undefined : searchedSince(filter.until, clock.now()))
  yield* newestFirst((page) => pageOfRequests(db, tables, { ...filter, since }, few, page), range)
}

/** Whether an index leads to the rows: otherwise rows are looked through, the newest first. */
function hasIndex(filter: RequestFilter, isOfFew: boolean): boolean {
  const { provider, owner, failureClass, success, idempotencyKey, providerRequestId, chain } = filter
  const { endpoint, operation, status, relatedTo } = filter
  if (chain !== undefined || providerRequestId !== undefined || (isOfFew && idempotencyKey !== undefined)) return true
  const searched = [endpoint, operation, status, relatedTo, idempotencyKey]
  const led = isOfFew ? [] : [provider, owner, failureClass, success]
  return [...searched, ...led].every((value) => value === undefined)
}

/**
 * By the time at which they were written, which all of these indexes have last: so the newest rows of an integration and of a class
 * are at the end of one index, and those of all integrations at the end of another one.
 *
 * @param few ids of the integrations; null: many, or all
 */
export function pageOfRequests(
  db: Database,
  tables: Tables,
  filter: RequestFilter,
  few: readonly number[] | null,
  { below, limit }: Page,
) {
  const { requests } = tables
  const newest = sql`order by ${requests.createdAt} desc, ${requests.id} desc limit ${limit}`
  const conditions = and(sql`true`, ...conditionsOf(requests, filter, below))
  const ofAll = and(
    conditions,
    classCondition(requests, filter),
    belongsToThem(tables, sql`${requests.integrationId}`, filter),
  )
  const picked =
    few === null
      ? sql`select ${requests.id} from ${requests} where ${ofAll} ${newest}`
      : sql`select newest.id from (${sql.join(
          branchesOf(requests, filter).map(({ isOf, first }) => {
            const where = sql`${requests.integrationId} = i.id and ${isOf} and ${conditions}`
            return sql`
              select n.id, n.created_at from unnest(${bigints(few)}) i (id) cross join lateral (
                select ${requests.id}, ${requests.createdAt} from ${requests} where ${where}
                order by ${first} ${requests.createdAt} desc, ${requests.id} desc limit ${limit}) n`
          }),
          sql` union all `,
        )}) newest order by newest.created_at desc, newest.id desc limit ${limit}`
  return summaries(db, tables)
    .where(sql`${requests.id} in (${picked})`)
    .orderBy(desc(requests.createdAt), desc(requests.id))
}

/** As a row counts; null: it succeeded. */
function classesOf({ failureClass, success }: RequestFilter): readonly RequestRow['failureClass'][] {
  const classes = success === undefined ? [null, ...FAILURE_CLASSES] : success ? [null] : FAILURE_CLASSES
  return failureClass === undefined ? classes : classes.filter((each) => each === failureClass)
}

/** Rows that stand together in an index, in the order of their time. */
interface Branch {
  readonly isOf: SQL
  /** Of the order, before the time. To Postgres `is null` is no equality: without the class it would not read the index backwards. */
  readonly first: SQL
}

function branchesOf({ failureClass, error }: Tables['requests'], filter: RequestFilter): Branch[] {
  const classes = classesOf(filter)
  const first = sql`${failureClass} desc,`
  const branches = classes.flatMap((each) => (each === null ? [] : [{ isOf: eq(failureClass, each), first }]))
  const [hasNull, hasUnknown] = [classes.includes(null), classes.includes('unknown')]
  const unclassed = isUnclassed(failureClass, error)
  if (hasNull && hasUnknown) return [{ isOf: isNull(failureClass), first }, ...branches]
  if (hasNull) return [{ isOf: sql`${failureClass} is null and ${error} is null`, first }, ...branches]
  return hasUnknown ? [...branches, { isOf: unclassed, first: sql`` }] : branches
}

function classCondition(requests: Tables['requests'], filter: RequestFilter): SQL | undefined {
  if (filter.failureClass === undefined && filter.success === undefined) return undefined
  return or(...branchesOf(requests, filter).map(({ isOf }) => sql`(${isOf})`))
}

function conditionsOf(requests: Tables['requests'], filter: RequestFilter, below: number | undefined) {
  const { endpoint, operation, status, providerRequestId, relatedTo, idempotencyKey, chain, since, until } = filter
  return [
    endpoint === undefined ? undefined : sql`position(lower(${endpoint}) in lower(${requests.endpoint})) > 0`,
    operation === undefined ? undefined : sql`lower(${requests.method}) = lower(${operation})`,
    status === undefined ? undefined : isOfStatus(requests, status),
    providerRequestId === undefined ? undefined : eq(requests.providerRequestId, providerRequestId),
    relatedTo === undefined ? undefined : eq(requests.relatedType, relatedTo.type),
    relatedTo === undefined ? undefined : eq(requests.relatedId, relatedTo.id),
    idempotencyKey === undefined ? undefined : eq(requests.idempotencyKey, idempotencyKey),
    chain === undefined ? undefined : sql`${requests.id} in (${chainOf(requests, chain)})`,
    since === undefined ? undefined : gte(requests.createdAt, since),
    until === undefined ? undefined : lt(requests.createdAt, until),
    below === undefined ? undefined : isOlderThan(requests, below),
  ]
}

function isOfStatus({ statusCode }: Tables['requests'], status: number | StatusClass): SQL {
  if (typeof status === 'number') return eq(statusCode, status)
  const first = Number(status[0]) * 100
  return sql`${statusCode} between ${first} and ${first + 99}`
}

/** Ids: back to the row that the others repeat, then all that lead there. Of the row's own integration, whatever a caller has named. */
function chainOf(requests: Tables['requests'], id: number): SQL {
  return sql`
    with recursive back (id, integration_id, retry_of, steps) as (
      select id, integration_id, retry_of, 0 from ${requests} where id = ${id}
      union all
      select r.id, r.integration_id, r.retry_of, back.steps + 1
      from back join ${requests} r on r.id = back.retry_of and r.integration_id = back.integration_id
      where back.steps < ${MAX_STEPS_BACK}
    ), chain (id, integration_id) as (
      (select id, integration_id from back order by steps desc limit 1)
      union
      select r.id, r.integration_id from chain
      join ${requests} r on r.retry_of = chain.id and r.integration_id = chain.integration_id
    )
    select id from chain limit ${MAX_ATTEMPTS + 1}`
}

/** @throws RequestNotFound */
export async function getRequest({ db, tables }: Framework, id: number): Promise<RequestDetail> {
  const { requests, integrations } = tables
  const [row] = isId(id)
    ? await db
        .select({ ...getTableColumns(requests), ...ofIntegration(tables) })
        .from(requests)
        .innerJoin(integrations, eq(integrations.id, requests.integrationId))
        .where(eq(requests.id, id))
    : []
  if (row === undefined) throw new RequestNotFound(id)
  const attempts = await summaries(db, tables)
    .where(sql`${requests.id} in (${chainOf(requests, id)})`)
    .orderBy(asc(requests.id))
  return { ...row, attempts: attempts.slice(0, MAX_ATTEMPTS), attemptsCut: attempts.length > MAX_ATTEMPTS }
}

function summaries(db: Database, tables: Tables) {
  const { requests, integrations } = tables
  const {
    requestData: _requestData,
    responseData: _responseData,
    requestHash: _requestHash,
    ...columns
  } = getTableColumns(requests)
  return db
    .select({ ...columns, ...ofIntegration(tables) })
    .from(requests)
    .innerJoin(integrations, eq(integrations.id, requests.integrationId))
}

function ofIntegration({ integrations }: Tables) {
  return { provider: integrations.provider, integrationName: integrations.name }
}
