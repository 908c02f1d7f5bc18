/**
 * What happens to a delivery before it is answered, in this order: provider, integration, body size, challenge,
 * signature, ids, one row, `WebhookReceived`, wake-up.
 *
 * Rule: docs/behaviour/webhooks.md, "Arrival".
 */
import { isIntegrationsError } from '../core/errors.ts'
import { errorLine } from '../core/logger.ts'
import { secretsOf } from '../core/redaction.ts'
import { eventType, storeDelivery } from '../core/webhook.ts'
import { findIntegration, genericWebhookCandidates, MAX_GENERIC_CANDIDATES } from '../db/queries/integrations.ts'
import { insertWebhook, integrationsWithPendingWebhooks } from '../db/queries/webhooks.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import type { HandlesWebhooks } from '../providers/provider.ts'
import { handlesWebhooks } from '../providers/provider.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import { deliveryIdOf, webhookRequest } from '../providers/webhook-request.ts'
import { integrationHandle } from './integration.ts'
import { redactedErrorLine } from './redacted-error.ts'

/** A delivery as the door sees it. */
export interface Delivery {
  readonly provider: string
  /** Null on the provider's generic route. */
  readonly integrationId: number | null
  readonly method: string
  readonly path: string
  /** Raw, without the question mark. */
  readonly query: string
  readonly headers: Headers
  /** Lower-case names and values as they were sent, repeats apart; `headers` joins those. Default: the joined ones. */
  readonly rawHeaders?: Iterable<readonly [string, string]>
  /** Reads at most so many bytes. */
  readBody(
    maxBytes: number,
  ): Promise<{ kind: 'read'; bytes: Uint8Array } | { kind: 'too large' } | { kind: 'too slow' }>
}

/** What became of it; the door turns each kind into a status. */
export type Arrival =
  | { readonly kind: 'queued'; readonly webhookId: number }
  | { readonly kind: 'duplicate' }
  | { readonly kind: 'challenge'; readonly status: number; readonly contentType: string; readonly body: string }
  | { readonly kind: 'unknown provider' }
  | { readonly kind: 'no webhooks' }
  | { readonly kind: 'unknown integration' }
  | { readonly kind: 'too large'; readonly maxBytes: number }
  | { readonly kind: 'too slow' }
  | { readonly kind: 'bad signature' }
  | { readonly kind: 'unavailable' }

/** A challenge's answer goes to whoever asked, unsigned: small, and never markup. */
const MAX_CHALLENGE_BYTES = 4_096
const CHALLENGE_TYPES: ReadonlySet<string> = new Set(['text/plain', 'application/json'])

export async function receiveDelivery(framework: Framework, delivery: Delivery): Promise<Arrival> {
  const provider = framework.providers.find(delivery.provider)
  if (provider === null) return { kind: 'unknown provider' }
  if (!handlesWebhooks(provider)) return { kind: 'no webhooks' }
  try {
    return await receive(framework, provider, delivery)
  } catch (error) {
    // Nothing was answered 2xx, so the provider sends it again.
    framework.logger.error(
      { provider: delivery.provider, error: errorLine(error, 500) },
      'a delivery could not be stored',
    )
    return { kind: 'unavailable' }
  }
}

async function receive(framework: Framework, provider: HandlesWebhooks, delivery: Delivery): Promise<Arrival> {
  const candidates = await candidatesFor(framework, delivery)
  if (candidates.length === 0) return { kind: 'unknown integration' }

  const maxBytes = framework.config.webhook.max_payload_bytes
  const body = await delivery.readBody(maxBytes)
  if (body.kind === 'too large') return { kind: 'too large', maxBytes }
  if (body.kind === 'too slow') return body
  const request = webhookRequest({ ...delivery, rawBody: body.bytes })

  const challenge = await answerChallenge(framework, provider, candidates[0] as IntegrationRow, request)
  if (challenge !== null) return challenge

  const owner = await ownerOf(framework, provider, candidates, request)
  if (owner.kind !== 'verified') return { kind: owner.kind }
  const row = owner.row

  const type = eventType(lenient(framework, () => provider.resolveWebhookEvent?.(request)))
  const deliveryId = deliveryIdOf(
    request,
    lenient(framework, () => provider.webhookDeliveryId?.(request)),
  )
  const stored = storeDelivery({
    ...delivery,
    headers: delivery.rawHeaders ?? delivery.headers,
    rawBody: body.bytes,
  })
  const webhookId = await insertWebhook(framework.db, framework.tables, {
    integrationId: row.id,
    deliveryId,
    eventType: type,
    ...stored,
  })
  // A repeat may be the provider's answer to a wake-up that failed.
  framework.workflows.wakeInbox(row.id)
  if (webhookId === null) return { kind: 'duplicate' }
  framework.logger.info(
    { event: 'webhook.stored', integration: row.id, webhook: webhookId, type, delivery: deliveryId },
    'webhook stored',
  )
  // Not awaited: the answer must not wait for listeners.
  void framework.listeners.emit('WebhookReceived', {
    integration: integrationHandle(framework, row),
    provider: row.provider,
    webhookId,
    deliveryId,
    eventType: type,
  })
  return { kind: 'queued', webhookId }
}

async function candidatesFor(framework: Framework, delivery: Delivery): Promise<IntegrationRow[]> {
  const { db, tables, logger } = framework
  if (delivery.integrationId !== null) {
    const row = await findIntegration(db, tables, delivery.integrationId)
    if (row === null || row.provider !== delivery.provider) return []
    // Switched off by an operator. One that its health switched off goes on accepting.
    if (!row.isActive && row.healthStatus !== 'disabled') return []
    return [row]
  }
  const rows = await genericWebhookCandidates(db, tables, delivery.provider)
  if (rows.length === MAX_GENERIC_CANDIDATES)
    logger.warn(
      { provider: delivery.provider, asked: rows.length },
      'many integrations share the generic webhook route; use the route with the id',
    )
  return rows
}

async function answerChallenge(
  framework: Framework,
  provider: HandlesWebhooks,
  row: IntegrationRow,
  request: WebhookRequest,
): Promise<Arrival | null> {
  const answer = await provider.answerWebhookChallenge?.(integrationHandle(framework, row), request)
  if (answer === undefined || answer === null) return null
  if (Buffer.byteLength(answer.body) > MAX_CHALLENGE_BYTES || !CHALLENGE_TYPES.has(answer.contentType)) {
    framework.logger.warn(
      { integration: row.id },
      `a challenge's answer is longer than ${MAX_CHALLENGE_BYTES} bytes or neither text nor JSON; refused`,
    )
    return { kind: 'bad signature' }
  }
  return { kind: 'challenge', ...answer }
}

/** The first candidate whose signature verifies owns the delivery. */
async function ownerOf(
  framework: Framework,
  provider: HandlesWebhooks,
  candidates: readonly IntegrationRow[],
  request: WebhookRequest,
): Promise<{ kind: 'verified'; row: IntegrationRow } | { kind: 'bad signature' } | { kind: 'unavailable' }> {
  let unreadable = 0
  for (const row of candidates) {
    const integration = integrationHandle(framework, row)
    try {
      if ((await provider.verifyWebhookSignature(integration, request)) === true) return { kind: 'verified', row }
    } catch (error) {
      // Credentials that can't be read are our trouble, not the sender's: it should try again.
      if (isIntegrationsError(error, 'credentials_unreadable')) unreadable += 1
      else
        framework.logger.warn(
          { integration: row.id, error: redactedErrorLine(error, secretsOf(integration.credentialsArray()), 200) },
          'verifyWebhookSignature() threw; counts as false',
        )
    }
  }
  return unreadable > 0 ? { kind: 'unavailable' } : { kind: 'bad signature' }
}

/** A verified delivery is never lost to a provider's reading of its type or id: a throw counts as none. */
function lenient(framework: Framework, read: () => string | null | undefined): string | null {
  try {
    const value = read()
    return typeof value === 'string' ? value : null
  } catch (error) {
    framework.logger.warn({ error: errorLine(error, 200) }, 'a provider could not read a delivery; counts as none')
    return null
  }
}

/** Wakes the inbox of every integration that has pending rows. @returns how many */
export async function wakePendingInboxes(framework: Framework): Promise<number> {
  const ids = await integrationsWithPendingWebhooks(framework.db, framework.tables)
  for (const id of ids) framework.workflows.wakeInbox(id)
  return ids.length
}
