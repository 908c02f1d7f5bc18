import type { Integration, SyncSession } from 'durable-integrations/provider'
import {
  defineProvider,
  nextByCursor,
  nextByPage,
  paginate,
  RateLimit,
  reduceCheckpointsByMax,
  SyncItemEvent,
} from 'durable-integrations/provider'
import { z } from 'zod'

const API = 'https://api.crm.example/v1'
const Contact = z.object({ id: z.string(), name: z.string(), updated_at: z.string() })
const Deal = z.object({ id: z.string(), contact_id: z.string(), title: z.string(), updated_at: z.string() })
const ContactPage = z.object({ contacts: z.array(Contact), next_cursor: z.string().nullable() })
const DealPage = z.object({ deals: z.array(Deal), total_pages: z.number() })

export class ContactSynced extends SyncItemEvent<z.infer<typeof Contact>> {
  static override readonly type = 'crm.contact'
  static override readonly schema = Contact
}

export class DealSynced extends SyncItemEvent<z.infer<typeof Deal>> {
  static override readonly type = 'crm.deal'
  static override readonly schema = Deal
}

export const crm = defineProvider({
  label: 'CRM',
  credentialsSchema: z.looseObject({ token: z.string().min(8) }),
  reduceCheckpoints: reduceCheckpointsByMax,
  syncItemEvents: () => [ContactSynced, DealSynced],
  defaultSyncInterval: () => 15,
  defaultRateLimit: () => RateLimit.perMinute(100),
  sync: list,
  syncIncremental: list,
})

async function list(integration: Integration, session: SyncSession) {
  const since = String(session.cursor() ?? '')
  await paginate(session, {
    name: 'contacts',
    first: null,
    page: (cursor) => get(session, ContactPage, 'contacts', { since, cursor: cursor ?? '' }),
    next: nextByCursor('next_cursor'),
    items: ({ contacts }) => contacts,
    event: (contact) => new ContactSynced(integration, contact),
    checkpoint: ({ updated_at }) => updated_at,
    externalId: ({ id }) => id,
  })
  await paginate(session, {
    name: 'deals',
    first: 1,
    page: (page) => get(session, DealPage, 'deals', { since, page: String(page) }),
    next: nextByPage({ pages: 'total_pages' }),
    items: ({ deals }) => deals,
    event: (deal) => new DealSynced(integration, deal),
    checkpoint: ({ updated_at }) => updated_at,
    externalId: ({ id }) => id,
  })
}

function get<S extends z.ZodType>(session: SyncSession, schema: S, path: string, query: Record<string, string>) {
  const { integration, signal } = session
  const url = `${API}/${path}?${new URLSearchParams(query)}`
  const headers = () => ({ authorization: `Bearer ${integration.credentialsArray().token}` })
  const data = { data: query, signal }
  return integration.requestAs(schema, path, 'GET', ({ fetch }) => fetch(url, { headers: headers() }), data)
}
