/**
 * The events that Stripe could not deliver.
 *
 * Source: https://docs.stripe.com/webhooks/process-undelivered-events. Rule: docs/behaviour/stripe.md, "Reconciliation".
 */
import type Stripe from 'stripe'
import { z } from 'zod'
import type { MissedWebhook, ReconcilesWebhooks } from '../../provider.ts'
import { eachPage, SchemaDrift } from '../../provider.ts'
import type { StripeAccount } from './stripe-call.ts'
import { callStripe } from './stripe-call.ts'

type Window = Parameters<ReconcilesWebhooks['missedWebhooks']>[1]

/** "going back up to 30 days": https://docs.stripe.com/api/events/list */
export const EVENTS_KEPT_SECONDS = 30 * 86_400
/** The most that Stripe gives: https://docs.stripe.com/api/pagination */
const EVENTS_PER_PAGE = 100
/** 5 MB at 5 KB an event: as many as one run stores. */
const PAGES_IN_MEMORY = 10

/** The fields that are read of each event; the rest is kept unchanged. */
const EventsPage = z.looseObject({
  data: z.array(z.looseObject({ id: z.string().min(1), type: z.string(), created: z.int() })),
  has_more: z.boolean(),
})

/**
 * Yields the oldest event first. Stripe lists the newest first and has no other order, so this reads the whole list before it
 * yields. It keeps the last pages in memory and reads the others again.
 */
export async function* undeliveredEvents(account: StripeAccount, window: Window): AsyncGenerator<MissedWebhook> {
  const pageStarts: (string | null)[] = []
  const keptPages: Stripe.Event[][] = []
  const pages = eachPage({
    first: null as string | null,
    page: async (start) => ({ start, ...(await pageOf(account, window, start)) }),
    next: ({ data, has_more }) => (has_more ? (data.at(-1)?.id ?? null) : null),
    items: ({ data }) => data,
    signal: window.signal,
  })
  for await (const { page } of pages) {
    pageStarts.push(page.start)
    keptPages.push(page.data)
    if (keptPages.length > PAGES_IN_MEMORY) keptPages.shift()
  }
  while (pageStarts.length > 0) {
    const start = pageStarts.pop() ?? null
    const events = keptPages.pop() ?? (await pageOf(account, window, start)).data
    for (const event of events.toReversed()) yield missed(event)
  }
}

async function pageOf(
  account: StripeAccount,
  { since, until, signal }: Window,
  start: string | null,
): Promise<Stripe.ApiList<Stripe.Event>> {
  const params = {
    delivery_success: false,
    // Stripe's times are whole seconds, so each moment is rounded up.
    created: { gte: Math.ceil(since.getTime() / 1_000), lt: Math.ceil(until.getTime() / 1_000) },
    limit: EVENTS_PER_PAGE,
    ...(start === null ? {} : { starting_after: start }),
  }
  return callStripe(account, {
    endpoint: 'events',
    method: 'GET',
    params,
    signal,
    async send(stripe) {
      const page = await stripe.events.list(params)
      const { error } = EventsPage.safeParse(page)
      if (error !== undefined)
        throw new SchemaDrift(
          'events',
          error.issues.map(({ path, message }) => ({ path: path.join('.'), message })),
        )
      const last = page.data.at(-1)?.id
      // The next page would be this one again, without end.
      if (page.has_more && (last === undefined || last === start))
        throw new SchemaDrift('events', [{ path: 'data', message: 'a page after which there is more must lead on' }])
      return page
    },
  })
}

function missed(event: Stripe.Event): MissedWebhook {
  return {
    deliveryId: event.id,
    eventType: event.type,
    payload: JSON.stringify(event),
    headers: { 'content-type': 'application/json' },
    occurredAt: new Date(event.created * 1_000),
  }
}
