/** Integrations as an operator lists them. Rule: docs/behaviour/integrations.md, "The list". */

import { circuitsOf } from '../calls/overrides/circuit-override.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { neededReauthMarks } from '../oauth/reauth-list.ts'
import type { Traffic } from '../observability/traffic-queries.ts'
import { trafficOfLastDay } from '../observability/traffic-queries.ts'
import type { CircuitView } from '../providers/integration.ts'
import type { SyncStanding } from '../syncs/standing-queries.ts'
import { syncStandings } from '../syncs/standing-queries.ts'
import type { HealthStatus } from './health-rules.ts'
import type { ListIntegrations } from './list.ts'
import { integrationPages } from './list.ts'

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
  readonly requests24h: number
  /** Percent, 0 to 100, to one decimal; null without traffic. */
  readonly errorRate24h: number | null
}

/** One question each for the rows, the traffic, the marks and the breakers of each page. @throws InvalidArgumentException at once */
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
  const { db, tables } = framework
  for await (const rows of pages) {
    const ids = rows.map((row) => row.id)
    const traffic = await trafficOfLastDay(db, tables, ids)
    yield* await summariesOf(framework, rows, traffic)
  }
}

/** @param traffic of the last 24 hours, by the integration's id */
export async function summariesOf(
  framework: Framework,
  rows: readonly IntegrationRow[],
  traffic: ReadonlyMap<number, Traffic>,
): Promise<IntegrationSummary[]> {
  const marks = await neededReauthMarks(
    framework,
    rows.map((row) => row.id),
  )
  const circuits = await circuitsOf(framework, rows)
  const standings = await syncStandings(
    framework.db,
    framework.tables,
    rows.map((row) => row.id),
  )
  return rows.map((row) => {
    const circuit = circuits.get(row.id)
    const { requests, failed } = traffic.get(row.id) ?? { requests: 0, failed: 0 }
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
      reauthRequired: marks.has(row.id),
      lastSyncedAt: row.lastSyncedAt,
      ...(standings.get(row.id) ?? NEVER_SYNCED),
      requests24h: requests,
      errorRate24h: percentOf(failed, requests),
    }
  })
}

/** One that was made since the others were asked about. */
const NEVER_SYNCED: SyncStanding = { failedItems: 0, waitingItems: 0, lastRun: null }

/** To one decimal; null of nothing. */
export function percentOf(part: number, whole: number): number | null {
  return whole === 0 ? null : Math.round((part / whole) * 1_000) / 10
}
