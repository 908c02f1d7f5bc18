/** What the soak's host, its outside server and its operator all know. */
import { z } from 'zod'
import type { ConfigInput } from '../../src/config/schema.ts'

/** Events of a delivery of many. */
export const EVENTS = 5
/** Entries of each sync's list, a second. */
export const ENTRIES_PER_SECOND = 2

/** The shortest retentions there are; the soak prunes by a clock that is ahead. */
export const SOAK_CONFIG: ConfigInput = {
  pruning: {
    requests_days: 1,
    logs_days: 1,
    idempotency_keys_days: 1,
    sync_items_days: 1,
    incidents_days: 1,
    webhooks_days: 1,
    audit_days: 1,
  },
}

/** The body of a delivery. */
export const Delivery = z.object({ id: z.string(), n: z.number().int(), filler: z.string() })
export type Delivery = z.infer<typeof Delivery>

export const Page = z.object({ items: z.array(z.number().int()) })
