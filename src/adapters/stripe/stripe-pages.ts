/** Pages of Stripe's dashboard about its objects. Rule: docs/behaviour/stripe.md, "Pages". */
import { z } from 'zod'
import type { Integration, ShownRecord } from '../../provider.ts'

/** By the beginning of an object's id, own keys only. https://docs.stripe.com/dashboard/basics */
const PLACES: Readonly<Record<string, string>> = {
  cus: 'customers',
  pi: 'payments',
  ch: 'payments',
  py: 'payments',
  in: 'invoices',
  sub: 'subscriptions',
  prod: 'products',
  po: 'payouts',
  dp: 'disputes',
  // Newer ones: https://docs.stripe.com/api/disputes/object
  du: 'disputes',
  evt: 'events',
}
const ID = /^([a-z]+)_[A-Za-z0-9_]{1,200}$/

const Thing = z.object({ id: z.string(), livemode: z.boolean().optional() })
const Delivered = z.object({ data: z.object({ object: Thing }), livemode: z.boolean().optional() })

/** Of a delivery the object that it is about, else the event. */
export function pageOf(_integration: Integration, { externalId, payload }: ShownRecord): string | null {
  const event = Thing.safeParse(payload).data
  const object = Delivered.safeParse(payload).data?.data.object
  const isLive = object?.livemode ?? event?.livemode ?? true
  for (const id of [object?.id, externalId, event?.id]) {
    const kind = ID.exec(id ?? '')?.[1] ?? ''
    const place = Object.hasOwn(PLACES, kind) ? PLACES[kind] : undefined
    if (place !== undefined) return `https://dashboard.stripe.com/${isLive ? '' : 'test/'}${place}/${id}`
  }
  return null
}
