/** Runs the handler of one claimed webhook. The inbox, recovery and replay all come through here. */
import { HandlerTimedOut } from '../core/errors.ts'
import type { Json } from '../core/json.ts'
import { withoutNul } from '../core/json.ts'
import { redactBody, secretsOf } from '../core/redaction.ts'
import { routeOf } from '../core/webhook.ts'
import type { WebhookOutcome } from '../db/queries/webhooks.ts'
import type { IntegrationRow, WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import type { HandlesWebhooks } from '../providers/provider.ts'
import { handlesWebhooks } from '../providers/provider.ts'
import { storedWebhookRequest } from '../providers/webhook-request.ts'
import { integrationHandle } from './integration.ts'
import { redactedErrorLine } from './redacted-error.ts'
import { withTimeLimit } from './time-limit.ts'

const MAX_ERROR_LENGTH = 1_000
const MAX_RESULT_BYTES = 65_536

/**
 * The outcome of one attempt; never throws.
 *
 * @param row as claimed: the outcome carries its `attempts` and `claim`, by which the settlement is guarded
 * @param integration read after the claim, so that the webhook sees it as it is when it runs; null when it is gone
 */
export async function runWebhook(
  framework: Framework,
  row: WebhookRow,
  integration: IntegrationRow | null,
): Promise<WebhookOutcome> {
  const startedAt = performance.now()
  const end = (
    outcome: { status: 'processed'; result: Json } | { status: 'failed'; error: string },
  ): WebhookOutcome => ({
    id: row.id,
    attempts: row.attempts,
    claim: row.claim ?? '',
    durationMs: Math.round(performance.now() - startedAt),
    status: outcome.status,
    error: outcome.status === 'failed' ? outcome.error : null,
    result: outcome.status === 'processed' ? outcome.result : null,
  })
  let secrets: string[] = []
  try {
    const refusal = refusalOf(framework, integration)
    if (integration === null || refusal !== null) return end({ status: 'failed', error: refusal ?? 'gone' })
    secrets = secretsOf(framework.encryption.decrypt(integration.id, integration.credentials))
    const limit = framework.config.webhook.handler_timeout
    const result = await withTimeLimit(limit, new HandlerTimedOut(limit), () => dispatch(framework, integration, row))
    return end({ status: 'processed', result: storedResult(result, secrets) })
  } catch (error) {
    return end({ status: 'failed', error: redactedErrorLine(error, secrets, MAX_ERROR_LENGTH) })
  }
}

/** Why nothing can handle the row; null when something can. */
function refusalOf(framework: Framework, integration: IntegrationRow | null): string | null {
  if (integration === null) return 'the integration is gone'
  // One that its health disabled after the claim goes on: only an operator's word turns a delivery away.
  if (!integration.isActive && integration.healthStatus !== 'disabled') return 'the integration is switched off'
  const provider = framework.providers.find(integration.provider)
  if (provider === null) return `the provider "${integration.provider}" is not registered`
  return handlesWebhooks(provider) ? null : `the provider "${integration.provider}" does not handle webhooks`
}

async function dispatch(framework: Framework, row: IntegrationRow, webhook: WebhookRow): Promise<unknown> {
  const provider = framework.providers.get(row.provider) as HandlesWebhooks
  const integration = integrationHandle(framework, row)
  const request = storedWebhookRequest({ payload: webhook.payload, headers: webhook.headers })
  const handlers = provider.webhookHandlers?.() ?? null
  const route = routeOf(webhook.eventType, handlers)
  switch (route.kind) {
    case 'provider':
      return provider.handleWebhook(integration, request)
    case 'ignored':
      return { status: 'ignored' }
    case 'handler': {
      const handler = handlers?.[route.eventType]
      if (typeof handler === 'function') return handler(integration, request)
      if (handler === undefined) return { status: 'ignored' }
      await framework.workflows.startHandler(handler, {
        webhookId: webhook.id,
        integrationId: webhook.integrationId,
        eventType: webhook.eventType,
      })
      return { status: 'started', workflow: handler.workflow }
    }
  }
}

/** The handler's result as JSON without secrets; a note when it is too large or no JSON, null when it is none. */
function storedResult(result: unknown, secrets: readonly string[]): Json {
  const text = jsonTextOf(result)
  if (text === undefined) return null
  if (text === null) return { note: 'result not stored: it is no JSON' }
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_RESULT_BYTES) return { note: `result of ${bytes} bytes not stored` }
  return withoutNul(JSON.parse(redactBody(text, secrets)) as Json)
}

/** Null for what JSON can't hold: the handler has run, so its result must not make it a failure. */
function jsonTextOf(result: unknown): string | undefined | null {
  try {
    return JSON.stringify(result)
  } catch {
    return null
  }
}
