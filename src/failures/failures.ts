/** Failures of the last hours, the same ones together. Rule: docs/behaviour/failures.md. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import { belongsToThem } from '../db/integrations-of.ts'
import { isFailure } from '../db/schema/requests-table.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts } from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import type { FailureKind } from './failure-rules.ts'
import { FAILURE_KINDS, groupId, MAX_LOOKED_AT, normalisedError } from './failure-rules.ts'

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
  /** Stable: of the kind and the error alone. */
  readonly group: string
  readonly kind: FailureKind
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
}

const DEFAULT_HOURS = 24
const DEFAULT_GROUPS = 50
const MAX_GROUPS = 500

/** Of each kind, the newest. */
const MAX_SCANNED = 4_000

/** @throws InvalidArgumentException */
export async function listFailures(framework: Framework, given: ListFailures = {}): Promise<Failures> {
  const { limit = DEFAULT_GROUPS, ...filter } = given
  checkIds({ limit })
  if (limit > MAX_GROUPS)
    throw new InvalidArgumentException('limit', `1 to ${MAX_GROUPS} are allowed, ${limit} was given`)
  const { since, scans } = await scanned(framework, filter)
  const groups = scans.flatMap(({ groups: found }) => found)
  groups.sort(
    (a, b) => b.count - a.count || b.lastSeen.getTime() - a.lastSeen.getTime() || (a.group < b.group ? -1 : 1),
  )
  return {
    since,
    groups: groups.slice(0, limit).map(({ ids: _ids, ...group }) => group),
    truncated: scans.some(({ truncated }) => truncated),
    more: groups.length > limit,
  }
}

export interface ScannedGroup extends FailureGroup {
  /** Of the failed rows, if they were asked for: ascending, with the integration of each. */
  readonly ids: readonly { readonly id: number; readonly integrationId: number }[]
}

/** @throws InvalidArgumentException */
export async function scanned(
  framework: Framework,
  filter: FailureFilter,
  options: { readonly withIds?: boolean } = {},
): Promise<{ readonly since: Date; readonly scans: readonly { groups: ScannedGroup[]; truncated: boolean }[] }> {
  const { kind, integrationId, provider, owner, until } = filter
  checkChoice('kind', kind, FAILURE_KINDS)
  checkIds({ integrationId })
  checkTexts({ provider })
  checkOwnerFilter(owner)
  checkPeriod(filter.since, until)
  const since = filter.since ?? new Date(framework.clock.now().getTime() - DEFAULT_HOURS * 3_600_000)
  checkPeriod(since, until)
  const kinds = kind === undefined ? FAILURE_KINDS : [kind]
  return { since, scans: await Promise.all(kinds.map((one) => scan(framework, one, { ...filter, since }, options))) }
}

type Scan = { readonly groups: ScannedGroup[]; readonly truncated: boolean }

async function scan(
  framework: Framework,
  kind: FailureKind,
  filter: FailureFilter & { readonly since: Date },
  { withIds = false }: { readonly withIds?: boolean },
): Promise<Scan> {
  const { db } = framework
  const rows = await db.execute<{
    error: string | null
    count: number
    first_seen: string
    last_seen: string
    integrations: number[]
    newest: string
    newest_of: string
    ids: [number, number][] | null
    total: number
  }>(sql`
    with scanned as materialized (
      ${newestOf(framework, kind, filter)}
    )
    select left(error, ${MAX_LOOKED_AT}) as error, count(*)::int as count, min(at) as first_seen, max(at) as last_seen,
           json_agg(distinct integration_id) as integrations,
           (array_agg(id order by at desc, id desc))[1] as newest,
           (array_agg(integration_id order by at desc, id desc))[1] as newest_of,
           ${withIds ? sql`json_agg(json_build_array(id, integration_id))` : sql`null`} as ids,
           (select count(*)::int from scanned) as total
    from scanned group by 1`)
  const total = rows[0]?.total ?? 0
  const byError = new Map<string, (typeof rows)[number][]>()
  for (const row of rows) {
    const error = normalisedError(row.error)
    const same = byError.get(error)
    if (same === undefined) byError.set(error, [row])
    else same.push(row)
  }
  return {
    groups: [...byError].map(([error, same]) => {
      const newest = same.reduce((one, other) => (new Date(other.last_seen) > new Date(one.last_seen) ? other : one))
      return {
        group: groupId(kind, error),
        kind,
        error,
        count: same.reduce((sum, { count }) => sum + count, 0),
        firstSeen: new Date(Math.min(...same.map(({ first_seen: at }) => new Date(at).getTime()))),
        lastSeen: new Date(newest.last_seen),
        integrations: new Set(same.flatMap(({ integrations }) => integrations)).size,
        example: {
          reference: `${kind}:${newest.newest}`,
          integrationId: Number(newest.newest_of),
          error: newest.error ?? '',
        },
        retryable: kind !== 'request',
        ids: same
          .flatMap(({ ids }) => (ids ?? []).map(([id, integrationId]) => ({ id, integrationId })))
          .sort((one, other) => one.id - other.id),
      }
    }),
    truncated: total >= MAX_SCANNED,
  }
}

/** By an index that has failures alone, in the order of their time. */
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
    order by ${at} desc limit ${MAX_SCANNED}`
  switch (kind) {
    case 'item':
      return sql`select r.id, r.integration_id, r.completed_at as at, r.error from ${tables.syncItems} r
        where r.status = 'failed' ${newest(sql`r.completed_at`)}`
    case 'webhook':
      return sql`select r.id, r.integration_id, r.processed_at as at, r.error from ${tables.webhooks} r
        where r.status = 'failed' and r.dismissed_at is null ${newest(sql`r.processed_at`)}`
    case 'request':
      return sql`select r.id, r.integration_id, r.created_at as at, r.error from ${tables.requests} r
        where ${isFailure(sql`r.failure_class`)} ${newest(sql`r.created_at`)}`
  }
}
