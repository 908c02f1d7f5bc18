/** Which deliveries an integration wants. Rule: docs/behaviour/webhooks.md, "A filter at the door". */
import type { HandlesWebhooks } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import { isListed, WANTED_EVENTS } from './rules.ts'

/** Whether the integration's list has this type; true where there is no list, or the type is not known. */
export const isWantedType = (integration: Integration, type: string | null): boolean =>
  type === null || isListed(integration.metadata[WANTED_EVENTS], type)

/**
 * Whether an event is wanted: its type is in the integration's list, where there is one, and the provider accepts it. A type that
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
  if (!isWantedType(integration, type)) return false
  return provider.acceptsWebhook === undefined || provider.acceptsWebhook(integration, request()) !== false
}
