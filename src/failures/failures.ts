/** Failures of the last hours, the same ones together. Rule: docs/behaviour/failures.md. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
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
/** Where many integrations are chosen, so that a loud one does not hide the others. */
const MIN_SCANNED_OF_EACH = 50

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
  const { db, tables } = framework
  const chosen = integrationsOf(filter)
  const each = chosen === null ? MAX_SCANNED : await scannedOfEach(framework, chosen)
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
    most: number
  }>(sql`
    with scanned as materialized (
      ${
        chosen === null
          ? newestOf(framework, kind, filter, null)
          : sql`
        select f.* from ${tables.integrations} i cross join lateral (
          ${newestOf(framework, kind, filter, each)}
        ) f where ${chosen}`
      }
    )
    select left(error, ${MAX_LOOKED_AT}) as error, count(*)::int as count, min(at) as first_seen, max(at) as last_seen,
           json_agg(distinct integration_id) as integrations,
           (array_agg(id order by at desc, id desc))[1] as newest,
           (array_agg(integration_id order by at desc, id desc))[1] as newest_of,
           ${withIds ? sql`json_agg(json_build_array(id, integration_id))` : sql`null`} as ids,
           (select count(*)::int from scanned) as total,
           (select max(n)::int from (select count(*) as n from scanned group by integration_id) counted) as most
    from scanned group by 1`)
  const total = rows[0]?.total ?? 0
  const most = rows[0]?.most ?? 0
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
    truncated: chosen === null ? total >= MAX_SCANNED : most >= each,
  }
}

/** A condition on the integrations `i`; null: all of them. */
function integrationsOf({ integrationId, provider, owner }: FailureFilter): SQL | null {
  const conditions = [
    ...(integrationId === undefined ? [] : [sql`i.id = ${integrationId}`]),
    ...(provider === undefined ? [] : [sql`i.provider = ${provider}`]),
    ...(owner === undefined ? [] : [sql`i.owner_type = ${owner.type} and i.owner_id = ${owner.id}`]),
  ]
  return conditions.length === 0 ? null : sql.join(conditions, sql` and `)
}

async function scannedOfEach({ db, tables }: Framework, chosen: SQL): Promise<number> {
  const [row] = await db.execute<{ n: number }>(
    sql`select count(*)::int as n from ${tables.integrations} i where ${chosen}`,
  )
  return Math.max(MIN_SCANNED_OF_EACH, Math.ceil(MAX_SCANNED / Math.max(1, row?.n ?? 1)))
}

/** The newest failures by an index of failures alone: of all integrations, or at most `each` of the integration `i`. */
function newestOf(
  { tables }: Framework,
  kind: FailureKind,
  { since, until }: { readonly since: Date; readonly until?: Date | undefined },
  each: number | null,
): SQL {
  const within = (at: SQL): SQL => sql`
    ${each === null ? sql`` : sql`and r.integration_id = i.id`} and ${at} >= ${since.toISOString()}::timestamptz
    ${until === undefined ? sql`` : sql`and ${at} < ${until.toISOString()}::timestamptz`}
    order by ${at} desc limit ${each ?? MAX_SCANNED}`
  switch (kind) {
    case 'item':
      return sql`select r.id, r.integration_id, r.completed_at as at, r.error from ${tables.syncItems} r
        where r.status = 'failed' ${within(sql`r.completed_at`)}`
    case 'webhook':
      return sql`select r.id, r.integration_id, r.processed_at as at, r.error from ${tables.webhooks} r
        where r.status = 'failed' and r.dismissed_at is null ${within(sql`r.processed_at`)}`
    case 'request':
      return sql`select r.id, r.integration_id, r.created_at as at, r.error from ${tables.requests} r
        where r.failure_class is not null ${within(sql`r.created_at`)}`
  }
}
