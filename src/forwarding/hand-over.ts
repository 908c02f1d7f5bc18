/**
 * Hands one attempt at a delivery or a sync item over to where the host handles it, and waits for what becomes of it. Attempts,
 * waits and claims stay those of the row.
 *
 * Rule: docs/behaviour/forwarding.md.
 */
import { Buffer } from 'node:buffer'
import type { SyncItemRow, WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError, NonRetryable, NotYet } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import type { Integration } from '../providers/integration.ts'
import type { SyncItemEvent } from '../providers/provider-events.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import type { Message } from './send.ts'
import { send } from './send.ts'
import type { HandlingTarget } from './target.ts'
import { checkTarget } from './target.ts'

/** 2 MiB of a cluster as it comes, which counts the payload's metadata, too: https://docs.temporal.io/self-hosted-guide/defaults */
const MAX_INPUT_BYTES = 2 * 1_048_576 - 1_024

/** Null: in our worker. @throws InvalidArgumentException for what a function of the host's gave */
export function targetOf(
  { handledBy }: Framework,
  what: 'webhooks' | 'items',
  integration: Integration,
): HandlingTarget | null {
  const source = handledBy[integration.provider]?.[what]
  if (typeof source !== 'function') return source ?? null
  const target = source(integration)
  if (target !== null) checkTarget(`handledBy.${integration.provider}.${what}`, target)
  return target
}

interface Attempt {
  readonly integration: Integration
  /** Aborted when the attempt's time is over. */
  readonly signal: AbortSignal
  readonly isOwn: boolean
}

/** The result of the host's workflow, or that its door took it. @throws what the attempt fails with */
export async function handOverWebhook(
  framework: Framework,
  target: HandlingTarget,
  row: WebhookRow,
  request: WebhookRequest,
  { integration, signal, isOwn }: Attempt,
): Promise<unknown> {
  const ids = {
    webhookId: row.id,
    deliveryId: row.deliveryId,
    eventType: row.eventType,
    attempt: row.attempts,
    ...integrationOf(integration),
  }
  // A replay is a message of its own: the host has handled the one before.
  const id = `webhook_${row.id}${row.replayAttempt === null ? '' : `_${row.replayAttempt}`}`
  const whole = { ...ids, isOwn, receivedAt: row.createdAt.toISOString(), ...bodyOf(request) }
  return handOver(framework, target, { id, type: 'webhook', ids, whole }, signal)
}

/** @throws NotYet where Temporal or the host's door asks to come again; else what the attempt fails with */
export async function handOverItem(
  framework: Framework,
  target: HandlingTarget,
  row: SyncItemRow,
  event: SyncItemEvent<unknown>,
  { integration, signal, isOwn }: Attempt,
): Promise<unknown> {
  const ids = {
    itemId: row.id,
    eventClass: row.eventClass,
    externalId: row.externalId,
    attempt: row.attempts,
    ...integrationOf(integration),
  }
  const whole = { ...ids, isOwn, change: event.change, payload: event.payload as Json }
  try {
    return await handOver(framework, target, { id: `item_${row.id}`, type: 'sync_item', ids, whole }, signal)
  } catch (error) {
    // No fault of the item: it is put off.
    if (isIntegrationsError(error, 'backend_unreachable')) throw new NotYet(error.message, { cause: error })
    const seconds = isIntegrationsError(error, 'forward_failed') ? Reflect.get(error, 'retryAfterSeconds') : null
    if (typeof seconds === 'number')
      throw new NotYet((error as Error).message, { retryAfterSeconds: seconds, cause: error })
    throw error
  }
}

function handOver(
  framework: Framework,
  target: HandlingTarget,
  { id, type, ids, whole }: Pick<Message, 'id' | 'type'> & { readonly ids: Json; readonly whole: Json },
  signal: AbortSignal,
): Promise<unknown> {
  if ('url' in target) return send(framework, target, { id, type, data: whole }, signal)
  const { workflow, taskQueue, sendsPayload = false } = target
  const { webhook, sync } = framework.config
  const timeoutSeconds = type === 'webhook' ? webhook.handler_timeout : sync.item_timeout
  const input = sendsPayload ? whole : ids
  const bytes = sendsPayload ? Buffer.byteLength(JSON.stringify(whole)) : 0
  if (bytes > MAX_INPUT_BYTES)
    throw new NonRetryable(
      `at most ${MAX_INPUT_BYTES} bytes are allowed as a workflow's input, this ${type} has ${bytes}: hand over without \`sendsPayload\`, or by HTTP`,
    )
  return framework.workflows.runHandler({ workflow, taskQueue, id, input, timeoutSeconds }, signal)
}

function integrationOf({ id, provider, owner }: Integration) {
  return { integrationId: id, provider, owner: owner === null ? null : { type: owner.type, id: owner.id } }
}

/** The bytes of the delivery: as text where they are UTF-8. */
function bodyOf(request: WebhookRequest): { readonly body: string } | { readonly bodyBase64: string } {
  const bytes = Buffer.from(request.rawBody)
  const text = bytes.toString('utf8')
  return Buffer.from(text, 'utf8').equals(bytes) ? { body: text } : { bodyBase64: bytes.toString('base64') }
}
