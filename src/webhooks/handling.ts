/** Runs the handler of one claimed webhook. The inbox, recovery and replay all come through here. */

import { SpanKind } from '@opentelemetry/api'
import type { IntegrationRow, WebhookRow } from '../db/schema/tables.ts'
import type { Arriving } from '../echoes/arrivals.ts'
import { handleArrival } from '../echoes/arrivals.ts'
import { handOverWebhook, targetOf } from '../forwarding/hand-over.ts'
import type { Framework } from '../framework/context.ts'
import { HandlerTimedOut, isIntegrationsError } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { isJson, withoutNul } from '../framework/json.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { asPartOf } from '../framework/origin.ts'
import { redactedErrorLine, redactedMessage } from '../framework/redacted-error.ts'
import { redactBody } from '../framework/redaction.ts'
import { errorKind, isError } from '../framework/thrown.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { IntegrationContext } from '../integrations/integration-contexts.ts'
import { isSwitchedOffByPerson } from '../integrations/rules.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import { inSpan, markFailed } from '../observability/spans.ts'
import type { HandlesWebhooks, WebhookContext, WebhookHandler } from '../providers/contracts.ts'
import { handlesWebhooks } from '../providers/contracts.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import { storedWebhookRequest } from '../providers/webhook-request.ts'
import { webhookPath } from './address.ts'
import type { WebhookOutcome } from './queries.ts'
import { webhookOutcome } from './queries.ts'
import { routeOf } from './rules.ts'
import type { Guarded } from './stale-guard.ts'
import { HandledVersions, judged, OWN, staleGuardOf, unlessStale } from './stale-guard.ts'

const MAX_ERROR_LENGTH = 1_000
const MAX_RESULT_BYTES = 65_536

/**
 * The outcome of one attempt; never throws. Null: the row goes back. Either its handler is a workflow and Temporal did not answer, or the
 * worker stops and the handler has not ended in time.
 *
 * @param row as claimed: its `attempts` and `claim` guard the settlement
 * @param integration read after the claim, so that the webhook sees it as it is when it runs; null when it is gone
 * @param handled versions that other rows have seen
 * @param enough aborted when a handler that still runs is given up
 */
export function runWebhook(
  framework: Framework,
  row: WebhookRow,
  integration: IntegrationContext | null,
  { handled = new HandledVersions(), enough }: { handled?: HandledVersions; enough?: AbortSignal } = {},
): Promise<WebhookOutcome | null> {
  const start = () => ({
    name: 'webhook handle',
    kind: SpanKind.CONSUMER,
    attributes: { 'integration.id': row.integrationId, 'webhook.id': row.id, 'webhook.attempt': row.attempts },
    // Of the trace of its request, wherever and however much later it runs; linked to what runs it together with others.
    parent: row.traceparent,
  })
  return inSpan(start, async (span) => {
    if (integration !== null) span.setAttribute('integration.provider', integration.row.provider)
    if (row.eventType !== null) span.setAttribute('webhook.event_type', row.eventType)
    const outcome = await attemptOf(framework, {
      row,
      integration,
      handled,
      enough,
      onError: (kind) => markFailed(span, kind),
    })
    span.setAttribute('webhook.outcome', outcome?.status ?? 'handed back')
    return outcome
  })
}

interface Attempted {
  readonly row: WebhookRow
  readonly integration: IntegrationContext | null
  readonly handled: HandledVersions
  readonly enough: AbortSignal | undefined
  /** Told its kind, never its text. */
  readonly onError: (kind: string) => void
}

async function attemptOf(
  framework: Framework,
  { row, integration, handled, enough, onError }: Attempted,
): Promise<WebhookOutcome | null> {
  const startedAt = performance.now()
  let isOwn: boolean | null = null
  const end = (outcome: Parameters<typeof webhookOutcome>[1]): WebhookOutcome =>
    webhookOutcome(row, outcome, Math.round(performance.now() - startedAt), isOwn)
  let secrets: () => readonly string[] = () => []
  try {
    const refusal = refusalOf(framework, integration?.row ?? null)
    if (integration === null || refusal !== null) {
      onError('refused')
      return end({ status: 'failed', error: refusal ?? 'gone' })
    }
    integration.secrets()
    // Asked again after the handler: it may have brought a new token.
    secrets = () => integration.secrets()
    const limit = framework.config.webhook.handler_timeout
    const result = await withTimeLimit(
      limit,
      () => new HandlerTimedOut(limit),
      (signal) =>
        asPartOf(framework.tables, 'webhook', row.id, () =>
          dispatch(framework, row, integration, {
            signal,
            handled,
            onJudged(verdict) {
              isOwn = verdict
            },
          }),
        ),
      enough,
    )
    return end({ status: 'processed', result: storedResult(result, secrets()) })
  } catch (error) {
    if (isError(error) && error instanceof HandlerNotReached) return null
    if (enough?.aborted === true && error === enough.reason) {
      const why = errorLine(enough.reason, 300)
      const provider = integration?.row.provider ?? UNKNOWN_PROVIDER
      integrationLogger(framework, { id: row.integrationId, provider }).warn(
        { event: 'webhook.interrupted', webhook: row.id, attempt: row.attempts, why },
        'a handler that still runs is given up; its webhook goes back, or another worker has it by now, and its handler runs again',
      )
      // Its handler may have written what it tells, and has not done the rest of its work: it stays foreign.
      if (isOwn === false) row.isOwn = false
      return null
    }
    onError(errorKind(error))
    const known = secrets()
    return end({
      status: 'failed',
      // The name tells it from a timeout of the handler's own.
      error: isIntegrationsError(error, 'handler_timed_out')
        ? `${error.name}: ${error.message}`
        : redactedMessage(error, known, MAX_ERROR_LENGTH),
      loggedError: redactedErrorLine(error, known, MAX_ERROR_LENGTH),
    })
  }
}

/** Thrown and caught here only. */
class HandlerNotReached extends Error {}

/** Why the row cannot be handled; null when it can. */
function refusalOf(framework: Framework, integration: IntegrationRow | null): string | null {
  if (integration === null) return 'the integration is gone'
  // One that its health disabled after the claim goes on: only an operator's word turns a delivery away.
  if (isSwitchedOffByPerson(integration)) return 'the integration is switched off'
  const provider = framework.providers.find(integration.provider)
  if (provider === null) return `the provider "${integration.provider}" is not registered`
  return handlesWebhooks(provider) ? null : `the provider "${integration.provider}" does not handle webhooks`
}

async function dispatch(
  framework: Framework,
  row: WebhookRow,
  integration: IntegrationContext,
  {
    signal,
    handled,
    onJudged,
  }: { signal: AbortSignal; handled: HandledVersions; onJudged: (isOwn: boolean | null) => void },
): Promise<unknown> {
  const provider = framework.providers.get(integration.row.provider) as HandlesWebhooks
  const target = targetOf(framework, 'webhooks', integration.handle)
  const handler = target === null ? routeOf(row.eventType, provider.webhookHandlers?.() ?? null) : 'provider'
  if (handler === 'ignored') return { status: 'ignored' }
  const request = requestOf(framework, row, integration.row)
  const guard = typeof handler === 'object' ? handler.staleGuard : undefined
  const guarded = judged(guard, row.integrationId, () => request.json())
  const arriving: Arriving = {
    framework,
    integration: integration.row,
    provider,
    kind: 'webhook',
    id: row.id,
    judged: row.isOwn,
    isFirst: row.attempts === 1 && row.lostWorkers === 0,
    told: () => ({ kind: 'delivery', request }),
    signal,
  }
  const run = () =>
    handleArrival(arriving, (isOwn) => {
      onJudged(isOwn)
      if (target !== null)
        return reached(
          handOverWebhook(framework, target, row, request, {
            integration: integration.handle,
            signal,
            isOwn: isOwn === true,
          }),
        )
      if (isOwn === true && typeof handler === 'object' && handler.skipOwn === true) return OWN
      return handle(framework, handler, { row, integration, provider, request, signal, isOwn: isOwn === true })
    })
  return guarded === null
    ? run()
    : unlessStale(framework, guarded, { signal, handled, owner: `webhook:${row.id}` }, run)
}

function requestOf(framework: Framework, row: WebhookRow, integration: IntegrationRow): WebhookRequest {
  const { payload, headers, createdAt: receivedAt } = row
  const toleranceSeconds = framework.config.webhook.timestamp_tolerance
  return storedWebhookRequest({ payload, headers, receivedAt, toleranceSeconds }, webhookPath(framework, integration))
}

/**
 * The thing that the row is a version of, so that a pump can put its rows in order. Null: no guard judges the row. A fault here occurs
 * again when the row runs, and is its outcome then.
 */
export function guardedBy(framework: Framework, row: WebhookRow, integration: IntegrationRow): Guarded | null {
  const provider = framework.providers.find(integration.provider)
  if (provider === null || !handlesWebhooks(provider)) return null
  try {
    return judged(staleGuardOf(provider, row.eventType), row.integrationId, () =>
      requestOf(framework, row, integration).json(),
    )
  } catch {
    return null
  }
}

/** Work of Temporal's, which may be away. */
async function reached<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (isIntegrationsError(error, 'backend_unreachable')) throw new HandlerNotReached()
    throw error
  }
}

interface Call {
  readonly row: WebhookRow
  readonly integration: IntegrationContext
  readonly provider: HandlesWebhooks
  readonly request: WebhookRequest
  readonly signal: AbortSignal
  readonly isOwn: boolean
}

async function handle(
  framework: Framework,
  handler: WebhookHandler | 'provider',
  { row, integration, provider, request, signal, isOwn }: Call,
): Promise<unknown> {
  const context: WebhookContext = {
    webhookId: row.id,
    deliveryId: row.deliveryId,
    eventType: row.eventType,
    attempt: row.attempts,
    signal,
    isOwn,
  }
  if (handler === 'provider') return provider.handleWebhook(integration.handle, request, context)
  if (typeof handler === 'function') return handler(integration.handle, request, context)
  if ('handle' in handler) return handler.handle(integration.handle, request, context)
  const { workflow, taskQueue } = handler
  const input = { webhookId: row.id, integrationId: row.integrationId, eventType: row.eventType }
  const started = { workflow, ...(taskQueue === undefined ? {} : { taskQueue }) }
  await reached(framework.workflows.startHandler(started, input, row.replayAttempt))
  return { status: 'started', workflow }
}

/** The handler's result as JSON without secrets. A note when it is too large or no JSON; null when there is no result. */
function storedResult(result: unknown, secrets: readonly string[]): Json {
  const text = jsonTextOf(result)
  if (text === undefined) return null
  if (text === null) return { note: 'result not stored: it is no JSON' }
  // Redaction may make it longer.
  const redacted = Buffer.byteLength(text) > MAX_RESULT_BYTES ? text : redactBody(text, secrets)
  const bytes = Buffer.byteLength(redacted)
  if (bytes > MAX_RESULT_BYTES) return { note: `result of ${bytes} bytes not stored` }
  const read: unknown = JSON.parse(redacted)
  return isJson(read) ? withoutNul(read) : { note: 'result not stored: it is nested too deeply' }
}

/** Null for what JSON can't hold: the handler has run, so its result must not make it a failure. */
function jsonTextOf(result: unknown): string | undefined | null {
  try {
    return JSON.stringify(result)
  } catch {
    return null
  }
}
