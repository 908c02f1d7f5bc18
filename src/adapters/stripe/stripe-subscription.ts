/**
 * The webhook endpoint that we register. Rule: docs/behaviour/stripe.md, "Registering the webhook".
 *
 * Source: https://docs.stripe.com/api/webhook_endpoints
 */
import type Stripe from 'stripe'
import { z } from 'zod'
import type { WantedSubscription, WebhookSubscription } from '../../provider.ts'
import { eachPage, statusOf } from '../../provider.ts'
import { WebhookEndpoints } from './resources/webhook-endpoints.ts'
import type { StripeAccount } from './stripe-call.ts'

const PAGE_SIZE = 100
/** https://docs.stripe.com/api/webhook_endpoints/create: all that need not be asked for by name. */
const ALL_EVENTS = ['*'] as const
type EnabledEvent = Stripe.WebhookEndpointCreateParams.EnabledEvent

/** `metadata.webhook_events` of an integration; Stripe refuses names that it does not know. */
const Metadata = z.looseObject({ webhook_events: z.array(z.string().min(1)).min(1).optional() })

function eventsOf({ integration }: StripeAccount): readonly EnabledEvent[] {
  return (Metadata.parse(integration.metadata).webhook_events as EnabledEvent[] | undefined) ?? ALL_EVENTS
}

/** Only this answer has its secret. */
export async function createEndpoint(
  account: StripeAccount,
  { url }: WantedSubscription,
): Promise<WebhookSubscription & { secret?: string }> {
  const made = await new WebhookEndpoints(account).create({ url, enabledEvents: eventsOf(account) })
  return { ...subscriptionOf(account, made), ...(made.secret === undefined ? {} : { secret: made.secret }) }
}

export async function listEndpoints(
  account: StripeAccount,
  { signal }: { readonly signal: AbortSignal },
): Promise<WebhookSubscription[]> {
  const endpoints = new WebhookEndpoints(account)
  const pages = eachPage({
    first: null as string | null,
    page: (start) => endpoints.list({ limit: PAGE_SIZE, ...(start === null ? {} : { startingAfter: start }) }),
    next: ({ data, has_more }) => (has_more ? (data.at(-1)?.id ?? null) : null),
    items: ({ data }) => data,
    signal,
  })
  const found: WebhookSubscription[] = []
  for await (const { items } of pages) found.push(...items.map((one) => subscriptionOf(account, one)))
  return found
}

/** Puts URL, types of events and switch right; the secret stays. Null: it is gone. An endpoint does not end. */
export async function renewEndpoint(
  account: StripeAccount,
  { id }: WebhookSubscription,
  { url }: WantedSubscription,
): Promise<WebhookSubscription | null> {
  const update = { id, url, enabledEvents: eventsOf(account), disabled: false }
  const renewed = await nullWhenGone(new WebhookEndpoints(account).update(update))
  return renewed === null ? null : subscriptionOf(account, renewed)
}

export async function removeEndpoint(account: StripeAccount, { id }: WebhookSubscription): Promise<void> {
  await nullWhenGone(new WebhookEndpoints(account).delete({ id }))
}

function subscriptionOf(account: StripeAccount, endpoint: Stripe.WebhookEndpoint): WebhookSubscription {
  const { id, url, status, enabled_events: enabled } = endpoint
  const hasEvents = enabled.includes('*') || eventsOf(account).every((event) => enabled.includes(event))
  return { id, url, expiresAt: null, isIntact: status !== 'disabled' && hasEvents }
}

async function nullWhenGone<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (statusOf(error) === 404) return null
    throw error
  }
}
