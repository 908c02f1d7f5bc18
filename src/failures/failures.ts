/** Failures of the last hours, the same ones together. Rule: docs/behaviour/failures.md. */
import { setImmediate } from 'node:timers/promises'
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import { belongsToThem } from '../db/integrations-of.ts'
import { isFailure, isUnclassed } from '../db/schema/requests-table.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts } from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import type { FailureKind, WaitingItems } from './failure-rules.ts'
import { AT_A_TIME, FAILURE_KINDS, groupId, MAX_LOOKED_AT, MAX_SCANNED, normalisedError } from './failure-rules.ts'
import { waitingItems } from './waiting-items.ts'

/** Selects failures; all that is given must hold. */
export interface FailureFilter {
  /** Default: all three. */
  readonly kind?: FailureKind | undefined
  readonly integrationId?: number | undefined
  readonly provider?: string | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  /** Failed at this moment or after it. Default: 24 hours ago. */
  readonly since?: Date | undefined
  /** Failed before this moment. */
  readonly until?: Date | undefined
}

export interface ListFailures extends FailureFilter {
  /** Groups, 1 to 500; default 50. */
  readonly limit?: number | undefined
}

/** Failures whose errors are the same but for numbers, ids, texts in quotes and URLs. */
export interface FailureGroup {
  /** Stable: of the kind, the class and the error alone. */
  readonly group: string
  readonly kind: FailureKind
  /** Of requests: a 403 of a rate limit ends by itself, one of a missing permission does not. Null: of items and webhooks. */
  readonly failureClass: FailureClass | null
  /** With what varies replaced. */
  readonly error: string
  /** Of those that were looked at. */
  readonly count: number
  readonly firstSeen: Date
  readonly lastSeen: Date
  /** How many are affected. */
  readonly integrations: number
  /** The newest: for `explain()`. */
  readonly example: { readonly reference: string; readonly integrationId: number; readonly error: string }
  /** Whether `retryGroup()` takes it: no request is sent again by itself. */
  readonly retryable: boolean
}

export interface Failures {
  readonly since: Date
  /** The most frequent first. */
  readonly groups: readonly FailureGroup[]
  /** There were more failures than are looked at: counts are lower bounds, and rare groups may be missing. */
  readonly truncated: boolean
  /** There are more groups than the limit lets through. */
  readonly more: boolean
  /** Items that have failed and wait for their next try, now, whatever the period; null: another kind was asked for. */
  readonly waiting: WaitingItems | null
}

const DEFAULT_HOURS = 24
const DEFAULT_GROUPS = 50
const MAX_GROUPS = 500

/** @throws InvalidArgumentException */
export async function listFailures(framework: Framework, given: ListFailures = {}): Promise<Failures> {
  const { limit = DEFAULT_GROUPS, ...filter } = given
  checkIds({ limit })
  if (limit > MAX_GROUPS)
    throw new InvalidArgumentException('limit', `1 to ${MAX_GROUPS} are allowed, ${limit} was given`)
  const { since, scans } = await scanned(framework, filter)
  const { kind = 'item' } = filter
  const groups = scans.flatMap(({ groups: found }) => found)
  groups.sort(
    (a, b) => b.count - a.count || b.lastSeen.getTime() - a.lastSeen.getTime() || (a.group < b.group ? -1 : 1),
  )
  return {
    since,
    groups: groups.slice(0, limit).map(({ failures: _failures, ...group }) => group),
    truncated: scans.some(({ truncated }) => truncated),
    more: groups.length > limit,
    waiting: kind === 'item' ? await waitingItems(framework, filter) : null,
  }
}

/** As it is read: id, integration, moment in milliseconds, what is looked at of its error, and the class of a request. */
type Failure = readonly [
  id: number,
  integrationId: number,
  atMs: number,
  error: string | null,
  failureClass: FailureClass | null,
]

export interface ScannedGroup extends FailureGroup {
  /** The newest first. */
  readonly failures: readonly Failure[]
}

/** @throws InvalidArgumentException */
export async function scanned(
  framework: Framework,
  filter: FailureFilter,
): Promise<{ readonly since: Date; readonly scans: readonly Scan[] }> {
  const { kind, integrationId, provider, owner, until } = filter
  checkChoice('kind', kind, FAILURE_KINDS)
  checkIds({ integrationId })
  checkTexts({ provider })
  checkOwnerFilter(owner)
  checkPeriod(filter.since, until)
  const since = filter.since ?? new Date(framework.clock.now().getTime() - DEFAULT_HOURS * 3_600_000)
  checkPeriod(since, until)
  const kinds = kind === undefined ? FAILURE_KINDS : [kind]
  return { since, scans: await Promise.all(kinds.map((one) => scan(framework, one, { ...filter, since }))) }
}

type Scan = { readonly groups: readonly ScannedGroup[]; readonly truncated: boolean }

async function scan(
  framework: Framework,
  kind: FailureKind,
  filter: FailureFilter & { readonly since: Date },
): Promise<Scan> {
  // One value: of 4,000 rows it takes the driver 2.5 ms of processor time, and 6 ms as rows.
  const [row] = await framework.db.execute<{ found: readonly Failure[] | null }>(sql`
    select json_agg(json_build_array(id, integration_id, extract(epoch from at)::float8 * 1000, error, class)
             order by at desc, id desc) as found
    from (${newestOf(framework, kind, filter)}) newest`)
  const found = row?.found ?? []
  const normalised = new Map<string | null, string>()
  // By class, then by error: a text made of both would be hashed again for each row.
  const byClass = new Map<FailureClass | null, Map<string, Failure[]>>()
  for (const failure of found.slice(0, MAX_SCANNED)) {
    const [, , , text, failureClass] = failure
    let error = normalised.get(text)
    if (error === undefined) {
      if (normalised.size % AT_A_TIME === AT_A_TIME - 1) await setImmediate()
      error = normalisedError(text)
      normalised.set(text, error)
    }
    const byError = byClass.get(failureClass) ?? new Map<string, Failure[]>()
    byClass.set(failureClass, byError)
    const same = byError.get(error)
    if (same === undefined) byError.set(error, [failure])
    else same.push(failure)
  }
  return {
    groups: [...byClass.values()].flatMap((byError) =>
      [...byError].map(([error, failures]) => groupOf(kind, error, failures)),
    ),
    truncated: found.length > MAX_SCANNED,
  }
}

/** @param failures the newest first, at least one */
function groupOf(kind: FailureKind, error: string, failures: readonly Failure[]): ScannedGroup {
  const [id, integrationId, lastMs, newest, failureClass] = failures[0] as Failure
  const [, , firstMs] = failures.at(-1) as Failure
  return {
    group: groupId(kind, error, failureClass),
    kind,
    failureClass,
    error,
    count: failures.length,
    firstSeen: new Date(firstMs),
    lastSeen: new Date(lastMs),
    integrations: new Set(failures.map(([, of]) => of)).size,
    example: { reference: `${kind}:${id}`, integrationId, error: newest ?? '' },
    retryable: kind !== 'request',
    failures,
  }
}

/** One more than are looked at tells whether there are more. By an index that has failures alone, in the order of their time. */
function newestOf(
  { tables }: Framework,
  kind: FailureKind,
  { since, until, integrationId, provider, owner }: FailureFilter & { readonly since: Date },
): SQL {
  const isOfThem = belongsToThem(tables, sql`r.integration_id`, { integrationId, provider, owner })
  const newest = (at: SQL): SQL => sql`
    and ${at} >= ${since.toISOString()}::timestamptz
    ${until === undefined ? sql`` : sql`and ${at} < ${until.toISOString()}::timestamptz`}
    ${isOfThem === undefined ? sql`` : sql`and ${isOfThem}`}
    order by ${at} desc limit ${MAX_SCANNED + 1}`
  const error = sql`left(r.error, ${MAX_LOOKED_AT}) as error`
  switch (kind) {
    case 'item':
      return sql`select r.id, r.integration_id, r.completed_at as at, ${error}, null as class from ${tables.syncItems} r
        where r.status = 'failed' ${newest(sql`r.completed_at`)}`
    case 'webhook':
      return sql`select r.id, r.integration_id, r.processed_at as at, ${error}, null as class from ${tables.webhooks} r
        where r.status = 'failed' and r.dismissed_at is null ${newest(sql`r.processed_at`)}`
    case 'request': {
      const [failureClass, at] = [sql`r.failure_class`, sql`r.created_at`]
      const from = sql`from ${tables.requests} r where`
      return sql`select * from (
        (select r.id, r.integration_id, r.created_at as at, ${error}, r.failure_class as class
          ${from} ${isFailure(failureClass)} ${newest(at)})
        union all
        (select r.id, r.integration_id, r.created_at as at, ${error}, 'unknown' as class
          ${from} ${isUnclassed(failureClass, sql`r.error`)} ${newest(at)})) r
        order by at desc limit ${MAX_SCANNED + 1}`
    }
  }
}
