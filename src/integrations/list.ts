/** Integrations by ascending id, as handles and as an operator's summaries. Rule: docs/behaviour/integrations.md, "The list". */

import { circuitsOf } from '../calls/overrides.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { ascendingPages, checkChoice, checkIds } from '../framework/list-filter.ts'
import { neededReauthMarks } from '../oauth/authorization-status.ts'
import type { Traffic } from '../observability/traffic-queries.ts'
import { trafficOfLastDay } from '../observability/traffic-queries.ts'
import type { CircuitView, Integration } from '../providers/integration.ts'
import type { SyncStanding } from '../syncs/standing-queries.ts'
import { syncStandings } from '../syncs/standing-queries.ts'
import { integrationHandle } from './handle.ts'
import type { IntegrationFilter } from './queries.ts'
import { pageOfIntegrations } from './queries.ts'
import { checkOwnerFilter, HealthStatus, percentOf } from './rules.ts'

export interface ListIntegrations extends IntegrationFilter {
  /** Ids greater than this one. */
  readonly after?: number
  /** The most that are listed, at least 1. */
  readonly limit?: number
}

/** @throws InvalidArgumentException at once, before anything is read */
export function listIntegrations(framework: Framework, filter: ListIntegrations = {}): AsyncIterable<Integration> {
  return handles(framework, integrationPages(framework, filter))
}

/** One at a time: a caller may stop at the first. */
async function* handles(framework: Framework, pages: AsyncIterable<IntegrationRow[]>): AsyncGenerator<Integration> {
  for await (const rows of pages) for (const row of rows) yield integrationHandle(framework, row)
}

/** The rows that a filter selects, 100 at a time. @throws InvalidArgumentException at once */
export function integrationPages(
  { db, tables }: Framework,
  { after, limit, ...filter }: ListIntegrations,
): AsyncIterable<IntegrationRow[]> {
  checkIntegrationFilter(filter)
  checkIds({ limit, after: after === 0 ? undefined : after })
  return ascendingPages((page) => pageOfIntegrations(db, tables, filter, { order: 'ascending', ...page }), {
    after,
    limit,
  })
}

/** @throws InvalidArgumentException */
export function checkIntegrationFilter({ provider, active, health, stale, owner }: IntegrationFilter): void {
  if (provider !== undefined && (typeof provider !== 'string' || provider.includes('\u0000')))
    throw new InvalidArgumentException('provider', "a provider's identifier is allowed")
  for (const [name, value] of Object.entries({ active, stale }))
    if (value !== undefined && typeof value !== 'boolean')
      throw new InvalidArgumentException(name, `true or false is allowed, ${String(value)} was given`)
  checkChoice('health', health, Object.values(HealthStatus))
  checkOwnerFilter(owner)
}

export interface IntegrationSummary extends SyncStanding {
  readonly id: number
  readonly name: string
  readonly provider: string
  /** Whether this process knows the provider. */
  readonly registered: boolean
  readonly healthStatus: HealthStatus
  /** False where a person or its health has switched it off. */
  readonly isActive: boolean
  /** When a person did; null: never. */
  readonly switchedOffAt: Date | null
  /** The override in force, else the breaker's state. */
  readonly circuit: NonNullable<CircuitView['override']> | CircuitView['state']
  readonly stale: boolean
  /** A person has to authorize it again. */
  readonly reauthRequired: boolean
  readonly lastSyncedAt: Date | null
  /** Null: the traffic was not asked for. */
  readonly requests24h: number | null
  /** Percent, 0 to 100, to one decimal; null without traffic. */
  readonly errorRate24h: number | null
}

/** One query each for the rows, the traffic, the marks and the breakers of a page. @throws InvalidArgumentException at once */
export function summariseIntegrations(
  framework: Framework,
  filter: ListIntegrations = {},
): AsyncIterable<IntegrationSummary> {
  return summaries(framework, integrationPages(framework, filter))
}

async function* summaries(
  framework: Framework,
  pages: AsyncIterable<IntegrationRow[]>,
): AsyncGenerator<IntegrationSummary> {
  for await (const rows of pages) {
    const ids = rows.map((row) => row.id)
    yield* await summariesOf(framework, rows, await trafficOfLastDay(framework, ids))
  }
}

/** @param traffic of the last 24 hours, by the integration's id; null: not asked for */
export async function summariesOf(
  framework: Framework,
  rows: readonly IntegrationRow[],
  traffic: ReadonlyMap<number, Traffic> | null,
): Promise<IntegrationSummary[]> {
  const work = await openWork(framework, rows)
  const circuits = await circuitsOf(framework, rows)
  return rows.map((row) => {
    const circuit = circuits.get(row.id)
    const { requests, failed } = traffic?.get(row.id) ?? { requests: 0, failed: 0 }
    return {
      id: row.id,
      name: row.name,
      provider: row.provider,
      registered: framework.providers.find(row.provider) !== null,
      healthStatus: row.healthStatus,
      isActive: row.isActive,
      switchedOffAt: row.switchedOffAt,
      circuit: circuit?.override ?? circuit?.state ?? 'closed',
      stale: row.syncStaleAlertedAt !== null,
      lastSyncedAt: row.lastSyncedAt,
      ...work(row.id),
      requests24h: traffic === null ? null : requests,
      errorRate24h: percentOf(failed, requests),
    }
  })
}

/** How the syncs of these integrations stand, and whether a person has to authorize them again; by id. */
export async function openWork(
  framework: Framework,
  rows: readonly Pick<IntegrationRow, 'id'>[],
): Promise<(id: number) => SyncStanding & { readonly reauthRequired: boolean }> {
  const ids = rows.map(({ id }) => id)
  const marks = await neededReauthMarks(framework, ids)
  const standings = await syncStandings(framework.db, framework.tables, ids)
  // An integration that was made since then has no standing.
  const none: SyncStanding = { failedItems: 0, waitingItems: 0, lastRun: null, openRun: null, pause: null }
  return (id) => ({ reauthRequired: marks.has(id), ...(standings.get(id) ?? none) })
}
