/** How one integration is, and why. Rule: docs/behaviour/health.md, "Report". */
import { createHash } from 'node:crypto'
import { integrationKey } from '../cache/integration-keys.ts'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import { authenticatedUser, supportsAuthenticatedUser } from '../credentials/authenticated-user.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs, integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { IncidentSummary } from '../incidents/list.ts'
import { listIncidents } from '../incidents/list.ts'
import { mostFrequentErrors, trafficFigures } from '../observability/traffic-queries.ts'
import type { AuthenticatedUser } from '../providers/contracts.ts'
import type { StreamStanding } from '../syncs/stream-list.ts'
import { streamStandings } from '../syncs/stream-list.ts'
import { integrationHandle } from './handle.ts'
import type { IntegrationSummary } from './list.ts'
import { summariesOf } from './list.ts'
import { requireIntegration } from './queries.ts'

const TOP_ERRORS = 3
const IDENTITY_SECONDS = 3_600
/** A provider that hangs must not keep the report. */
const IDENTITY_TIMEOUT_SECONDS = 10
const MAX_ERROR_LENGTH = 500

export interface HealthReport extends IntegrationSummary {
  readonly consecutiveFailures: number
  readonly consecutiveSyncFailures: number
  readonly lastErrorAt: Date | null
  readonly nextSyncAt: Date | null
  /** None where its provider has one `sync()`. */
  readonly streams: readonly StreamStanding[]
  /** Since when its failure rate counts as elevated; null: it does not. */
  readonly elevatedSince: Date | null
  /** The open one. */
  readonly incident: IncidentSummary | null
  /** Failed requests of the last 24 hours; null: the traffic was not asked for. */
  readonly failures24h: Readonly<Record<FailureClass, number>> | null
  /** Of the last 24 hours, whole milliseconds; null without requests. */
  readonly meanMs24h: number | null
  readonly p95Ms24h: number | null
  /** The most frequent of the last 24 hours, three at most; null: the traffic was not asked for. */
  readonly topErrors24h: readonly { readonly error: string; readonly requests: number }[] | null
  /** Asked for at most once an hour; null where the provider has no identity, or it could not be asked. */
  readonly identity: Omit<AuthenticatedUser, 'raw'> | null
}

export interface HealthReportOptions {
  /** False: no call is made, and `identity` is null. Default true. */
  readonly asksProvider?: boolean
  /** False: the request log is not read, and the figures of 24 hours are null. Default true. */
  readonly traffic?: boolean
}

/** @throws IntegrationNotFound */
export async function healthReport(
  framework: Framework,
  id: number,
  { asksProvider = true, traffic: withTraffic = true }: HealthReportOptions = {},
): Promise<HealthReport> {
  const row = await requireIntegration(framework, id)
  const { counts, ...figures } = withTraffic ? await trafficOf(framework, id) : NO_TRAFFIC
  const [summary] = await summariesOf(framework, [row], counts)
  return {
    ...(summary as IntegrationSummary),
    ...figures,
    consecutiveFailures: row.consecutiveFailures,
    consecutiveSyncFailures: row.consecutiveSyncFailures,
    lastErrorAt: row.lastErrorAt,
    nextSyncAt: row.nextSyncAt,
    streams: await streamStandings(framework, row),
    elevatedSince: row.anomalyAlertedAt,
    incident: await openIncident(framework, id),
    identity: asksProvider ? await identityOf(framework, row) : null,
  }
}

const NO_TRAFFIC = { counts: null, failures24h: null, meanMs24h: null, p95Ms24h: null, topErrors24h: null }

async function trafficOf(framework: Framework, id: number) {
  const { db, tables } = framework
  const period = { hours: 24, nowMs: givenNowMs(framework) }
  const { requests, failures, meanMs, p95Ms } = await trafficFigures(db, tables, { integrationId: id }, period)
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0)
  return {
    counts: new Map([[id, { requests, failed }]]),
    failures24h: failures,
    meanMs24h: meanMs === null ? null : Math.round(meanMs),
    p95Ms24h: p95Ms,
    topErrors24h: await mostFrequentErrors(db, tables, id, { ...period, limit: TOP_ERRORS }),
  }
}

async function openIncident(framework: Framework, integrationId: number): Promise<IncidentSummary | null> {
  for await (const incident of listIncidents(framework, { integrationId, status: 'open', limit: 1 })) return incident
  return null
}

/** A provider that could not be asked is left alone for an hour: a report each minute must not make an integration fail more. */
async function identityOf(framework: Framework, row: IntegrationRow): Promise<HealthReport['identity']> {
  const integration = integrationHandle(framework, row)
  if (!supportsAuthenticatedUser(framework, integration)) return null
  const { cache } = framework
  const refused = refusalKey(row)
  if ((await cache.get(refused)) !== undefined) return null
  try {
    const { id, name, email, username } = await withTimeLimit(
      IDENTITY_TIMEOUT_SECONDS,
      () => new Error(`The provider did not answer within ${IDENTITY_TIMEOUT_SECONDS} s.`),
      () => authenticatedUser(framework, integration, IDENTITY_SECONDS),
    )
    return { id, name, email, username }
  } catch (error) {
    await cache.set(refused, true, IDENTITY_SECONDS)
    integrationLogger(framework, row).warn(
      {
        event: 'health.identity_unknown',
        error: redactedErrorLine(error, secretsIn(integration), MAX_ERROR_LENGTH),
      },
      'the provider could not be asked whose credentials these are; the report leaves it out, and asks again in an hour',
    )
    return null
  }
}

/** Of these stored credentials only: others may be better. */
function refusalKey({ id, credentials }: IntegrationRow): string {
  return integrationKey(id, `identity-refused:${createHash('sha256').update(credentials).digest('hex').slice(0, 16)}`)
}
