/** How a look ends: what is stored of it, and the incident. Rule: docs/behaviour/webhook-subscriptions.md, "Failures". */
import { announceChanges } from '../calls/call-events.ts'
import { isFinalFault } from '../calls/retry.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { WebhookSubscriptionRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { errorKind } from '../framework/thrown.ts'
import type { IncidentCause } from '../incidents/queries.ts'
import { closeIncidents, openIncidents } from '../incidents/queries.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { lockIntegration } from '../integrations/queries.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { Look } from './keep.ts'
import { storeLook } from './queries.ts'
import { isAlarming, retrySeconds } from './rules.ts'

const FAILED: IncidentCause = { source: 'webhooks', reason: 'webhook_subscription_failed', severity: 'degraded' }
const MAX_ERROR_LENGTH = 500

/** What a row says once the provider has none. */
export const NO_SUBSCRIPTION = { subscriptionId: null, url: null, expiresAt: null, renewedAt: null, secretMark: null }

/** A look that went well. An incident that earlier ones opened closes, if all else is well. Null: a later look has the row. */
export async function settleLook(
  framework: Framework,
  row: WebhookSubscriptionRow,
  nextSeconds: number | null,
  found: Partial<typeof NO_SUBSCRIPTION> = {},
): Promise<WebhookSubscriptionRow | null> {
  const { db, tables, clock } = framework
  const now = clock.now()
  const { integrationId: id } = row
  const changes = {
    ...found,
    checkedAt: now,
    nextCheckAt: nextSeconds === null ? null : new Date(now.getTime() + nextSeconds * 1_000),
    failures: 0,
    failingSince: null,
    lastError: null,
    alertedAt: null,
  }
  if (row.alertedAt === null) return storeLook(db, tables, row, changes)
  const settled = await db.transaction(async (tx) => {
    const integration = await lockIntegration(tx, tables, id)
    const stored = integration === null ? null : await storeLook(tx, tables, row, changes)
    if (integration === null || stored === null) return null
    return { stored, integration, events: (await closeIncidents(framework, tx, [id])).get(id) ?? [] }
  })
  if (settled === null) return null
  await announceChanges(framework, integrationHandle(framework, settled.integration), settled.events)
  return settled.stored
}

interface Failure {
  readonly error: unknown
  readonly integration: Integration | null
  readonly provider: IntegrationProvider | null
}

/** A look that failed: counted, tried again after a wait, and an incident where it does not pass by itself. */
export async function settleFailure(
  framework: Framework,
  row: WebhookSubscriptionRow,
  { error, integration, provider }: Failure,
): Promise<Look | null> {
  const { db, tables, clock, config } = framework
  const { integrationId: id } = row
  const now = clock.now()
  const failures = row.failures + 1
  const waitSeconds = retrySeconds(failures, config.webhook.subscription_check)
  const alarms = row.alertedAt === null && isAlarming(failures, isFinal(error, provider))
  const settled = await db.transaction(async (tx) => {
    const locked = await lockIntegration(tx, tables, id)
    if (locked === null) return null
    const stored = await storeLook(tx, tables, row, {
      failures,
      failingSince: row.failingSince ?? now,
      lastError: redactedErrorLine(error, integration === null ? [] : secretsIn(integration), MAX_ERROR_LENGTH),
      nextCheckAt: new Date(now.getTime() + waitSeconds * 1_000),
      ...(alarms ? { alertedAt: now } : {}),
    })
    if (stored === null) return null
    const opened = alarms ? await openIncidents(framework, tx, FAILED, [locked]) : new Map()
    return { stored, locked, events: opened.get(id) ?? [] }
  })
  if (settled === null) return null
  const { stored, locked, events } = settled
  integrationLogger(framework, locked).warn(
    { event: 'webhook.subscription_failed', failures, retry_in_seconds: waitSeconds, error: stored.lastError },
    'a webhook subscription could not be looked after; it is tried again',
  )
  await announceChanges(framework, integrationHandle(framework, locked), events)
  return failedLook(stored, error, waitSeconds)
}

/**
 * A look whose provider is not registered in this process. Another worker may know it, so no failure is counted, and the
 * next look comes after the longest wait. Rule: docs/behaviour/integrations.md, "A provider that is not registered".
 */
export async function passOver(
  { db, tables, clock, config }: Framework,
  row: WebhookSubscriptionRow,
  error: unknown,
): Promise<Look | null> {
  const waitSeconds = retrySeconds(Number.POSITIVE_INFINITY, config.webhook.subscription_check)
  const nextCheckAt = new Date(clock.now().getTime() + waitSeconds * 1_000)
  const stored = await storeLook(db, tables, row, { nextCheckAt })
  return stored === null ? null : failedLook(stored, error, waitSeconds)
}

function failedLook(
  { integrationId, subscriptionId, expiresAt }: WebhookSubscriptionRow,
  failure: unknown,
  nextLookInSeconds: number,
): Look {
  return {
    sight: {
      integrationId,
      standing: 'failing',
      did: 'nothing',
      subscriptionId,
      expiresAt: expiresAt?.toISOString() ?? null,
      error: errorKind(failure),
      nextLookInSeconds,
    },
    failure,
  }
}

/** Codes of ours that only a person can mend. */
const FOR_A_PERSON: ReadonlySet<string> = new Set([
  'base_url_missing',
  'unsupported_by_provider',
  'credentials_unreadable',
  'invalid_credentials',
  'reauth_required',
])

function isFinal(error: unknown, provider: IntegrationProvider | null): boolean {
  if (isIntegrationsError(error) && FOR_A_PERSON.has(error.code)) return true
  return isFinalFault(error, provider)
}
