/** Which deliveries an integration wants. Rule: docs/behaviour/webhooks.md, "A filter at the door". */
import type { HandlesWebhooks } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'

/** In the integration's metadata: event types, of which no other is stored. */
export const WANTED_EVENTS = 'webhook_events'
const MAX_TYPES = 200
const MAX_TYPE_LENGTH = 255

export const ALLOWED_WANTED_EVENTS = `a list of 1 to ${MAX_TYPES} different event types, each a text of 1 to ${MAX_TYPE_LENGTH} characters`

/** Whether metadata may have this as its `webhook_events`. */
export function isWantedEvents(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= MAX_TYPES &&
    new Set(value).size === value.length &&
    value.every((type) => typeof type === 'string' && type !== '' && [...type].length <= MAX_TYPE_LENGTH)
  )
}

/**
 * Whether an event is wanted: its type is one of the integration's list, where there is one, and the provider accepts it. A type that
 * is not known is judged by the provider alone.
 *
 * @param request of the event
 * @throws what the provider throws
 */
export function wants(
  provider: HandlesWebhooks,
  integration: Integration,
  type: string | null,
  request: () => WebhookRequest,
): boolean {
  const listed = integration.metadata[WANTED_EVENTS]
  if (type !== null && isWantedEvents(listed) && !listed.includes(type)) return false
  return provider.acceptsWebhook === undefined || provider.acceptsWebhook(integration, request()) !== false
}
