/** The provider of the little hosts. What a bug is about stands in an option. */
import type { Call, Integration, SyncSession, WebhookHandler, WebhookRequest } from 'durable-integrations/provider'
import {
  defineProvider,
  nextByCursor,
  nextByPage,
  ProviderEvent,
  paginate,
  RateLimit,
  reduceCheckpointsByMax,
  SyncItemEvent,
} from 'durable-integrations/provider'
import { z } from 'zod'
import { API, SECRET } from './shop.ts'

export const Order = z.object({
  id: z.string(),
  title: z.string(),
  version: z.number(),
  updated_at: z.string(),
  is_deleted: z.boolean(),
})
export type ListedOrder = z.infer<typeof Order>
const Page = z.object({ orders: z.array(Order), next: z.string().nullable(), has_more: z.boolean(), as_of: z.string() })
const Delivery = z.object({ id: z.string(), type: z.string(), order: Order })

export class OrderSynced extends SyncItemEvent<ListedOrder> {
  static override readonly type = 'shop.order'
  static override readonly schema = Order
}

export class OrderChanged extends ProviderEvent {
  static override readonly type = 'shop.order_changed'

  constructor(
    integration: Integration,
    readonly order: ListedOrder,
    readonly change: string,
  ) {
    super(integration)
  }
}

export const INTEGRATION = { provider: 'shop', name: 'a shop', credentials: { webhook_secret: SECRET } }

export type ListingBug = 'ties' | 'wrong clock' | 'page numbers' | 'throttled is done'

const base = { defaultRateLimit: () => RateLimit.per(10_000, 1) }

/** By the order of change, from the cursor on. */
export function listingProvider(bug?: ListingBug) {
  const list = async (integration: Integration, session: SyncSession): Promise<void> => {
    const since = { [bug === 'ties' ? 'over' : 'since']: String(session.cursor() ?? '') }
    if (bug === 'throttled is done') return listUntilThrottled(session, since)
    const each = {
      items: ({ orders }: z.infer<typeof Page>) => orders,
      event: (order: ListedOrder) => new OrderSynced(integration, order),
      checkpoint: (order: ListedOrder) =>
        bug === 'wrong clock' ? `${new Date().toISOString().slice(0, 19)}Z` : order.updated_at,
      externalId: ({ id }: ListedOrder) => id,
    }
    if (bug === 'page numbers')
      return paginate(session, {
        ...each,
        first: 1,
        page: (page) => getPage(session, { ...since, page: String(page) }),
        next: nextByPage({ more: 'has_more', walks: 1 }),
      })
    return paginate(session, {
      ...each,
      first: null,
      page: (after) => getPage(session, { ...since, after: after ?? '' }),
      next: nextByCursor('next'),
    })
  }
  return defineProvider({
    ...base,
    // One list in the order of change, so that changes come later in it.
    listsByCheckpoint: bug !== 'page numbers' && bug !== 'throttled is done',
    reduceCheckpoints: reduceCheckpointsByMax,
    syncItemEvents: () => [OrderSynced],
    sync: list,
    syncIncremental: list,
  })
}

/** A limit is taken for the end of the list, and all of it for listed by then. */
async function listUntilThrottled(session: SyncSession, since: Record<string, string>): Promise<void> {
  let asOf: string | null = null
  let after = ''
  try {
    for (;;) {
      const page: z.infer<typeof Page> = await getPage(session, { ...since, after })
      asOf ??= page.as_of
      for (const order of page.orders)
        await session.dispatch(new OrderSynced(session.integration, order), asOf, order.id)
      if (page.next === null) return
      after = page.next
    }
  } catch (error) {
    if ((error as { code?: string }).code !== 'rate_limit_exceeded') throw error
  }
}

function getPage(session: SyncSession, query: Record<string, string>) {
  const { integration, signal } = session
  return get(integration, Page, `orders?${new URLSearchParams(query)}`, signal)
}

export function get<S extends z.ZodType>(integration: Integration, schema: S, path: string, signal?: AbortSignal) {
  const call: Call<Response> = ({ fetch }) => fetch(`${API}/${path}`)
  const [endpoint = path] = path.split('?')
  return integration.requestAs(schema, endpoint, 'GET', call, signal === undefined ? {} : { signal })
}

const webhooks = {
  signature: { scheme: 'hmac', hash: 'sha256', header: 'x-shop-signature', encoding: 'hex' } as const,
  webhookDeliveryId: (request: WebhookRequest) => Delivery.safeParse(request.json()).data?.id ?? null,
  resolveWebhookEvent: (request: WebhookRequest) => Delivery.safeParse(request.json()).data?.type ?? null,
  async handleWebhook(integration: Integration, request: WebhookRequest) {
    const { order, type } = Delivery.parse(request.json())
    await integration.emit(new OrderChanged(integration, order, type))
  },
}

/** It only delivers, and knows a write again by its key. */
export function deliveringProvider() {
  return defineProvider({
    ...base,
    ...webhooks,
    supportsIdempotency: true,
    idempotencyHeader: 'idempotency-key',
    idempotencyWindowSeconds: 86_400,
  })
}

/** It lists and delivers. */
export function mirroredProvider() {
  return { ...listingProvider(), ...webhooks }
}

/** It delivers, and an older delivery than the last handled one of its order is not handled. */
export function guardedProvider() {
  const guarded: WebhookHandler = {
    handle: webhooks.handleWebhook,
    staleGuard: (payload) => {
      const { id: key, version } = Delivery.parse(payload).order
      return { key, version }
    },
  }
  const webhookHandlers = () => ({ 'order.placed': guarded, 'order.changed': guarded, 'order.removed': guarded })
  return defineProvider({ ...base, ...webhooks, webhookHandlers })
}

/** A write of the shop's. */
export function post<S extends z.ZodType>(
  integration: Integration,
  schema: S,
  path: string,
  data: Record<string, string>,
  idempotencyKey: string | null,
) {
  const call: Call<Response> = ({ fetch, idempotencyKey: key }) =>
    fetch(`${API}/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key == null ? {} : { 'idempotency-key': key }) },
      body: JSON.stringify(data),
    })
  return integration.requestAs(schema, path, 'POST', call, { data, idempotencyKey })
}
