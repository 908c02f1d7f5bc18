import type { Integration, RequestContext, SyncSession } from 'durable-integrations/provider'
import {
  defineProvider,
  nextByCursor,
  nextByPage,
  paginate,
  RateLimit,
  ReauthRequiredException,
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

const stream = { everySeconds: 900, reduceCheckpoints: reduceCheckpointsByMax }

export const streams = {
  contacts: { ...stream, events: [ContactSynced], sync: listContacts, syncIncremental: listContacts },
  deals: { ...stream, events: [DealSynced], sync: listDeals, syncIncremental: listDeals, after: 'contacts' },
}
export const defaultRateLimit = () => RateLimit.perMinute(100)

export const crm = defineProvider({
  label: 'CRM',
  credentialsSchema: z.looseObject({ access_token: z.string().min(8) }),
  defaultRateLimit,
  streams,
})

function listContacts(integration: Integration, session: SyncSession) {
  return paginate(session, {
    first: null,
    page: (cursor) => get(session, ContactPage, 'contacts', { cursor: cursor ?? '' }),
    next: nextByCursor('next_cursor'),
    items: ({ contacts }) => contacts,
    event: (contact) => new ContactSynced(integration, contact),
    checkpoint: ({ updated_at }) => updated_at,
    externalId: ({ id }) => id,
  })
}

function listDeals(integration: Integration, session: SyncSession) {
  return paginate(session, {
    first: 1,
    page: (page) => get(session, DealPage, 'deals', { page: String(page) }),
    next: nextByPage({ pages: 'total_pages' }),
    items: ({ deals }) => deals,
    event: (deal) => new DealSynced(integration, deal),
    checkpoint: ({ updated_at }) => updated_at,
    externalId: ({ id }) => id,
  })
}

function get<S extends z.ZodType>(session: SyncSession, schema: S, path: string, query: Record<string, string>) {
  const { integration, signal } = session
  const data = { since: String(session.cursor() ?? ''), ...query }
  const url = `${API}/${path}?${new URLSearchParams(data)}`
  const call = async ({ fetch }: RequestContext) => {
    const token = await integration.getAccessToken()
    if (token === null) throw new ReauthRequiredException(integration.id, 'there is no access token')
    return fetch(url, { headers: { authorization: `Bearer ${token}` } })
  }
  return integration.requestAs(schema, path, 'GET', call, { data, signal })
}
