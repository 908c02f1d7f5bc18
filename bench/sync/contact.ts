/** The item of this bench: half a kilobyte of JSON, as a CRM's contacts have it. */
import type { Json } from 'durable-integrations/provider'
import { SyncItemEvent } from 'durable-integrations/provider'

export class ContactChanged extends SyncItemEvent {
  static override readonly type = 'bench.contact_changed'
}

/** Its listeners take a while. */
export class SlowContactChanged extends SyncItemEvent {
  static override readonly type = 'bench.slow_contact_changed'
}

export const externalIdOf = (number: number): string => `con_${number}`

/** A second apart, the later the number. */
export const changedAt = (number: number): string => new Date(FIRST_CHANGE_MS + number * 1_000).toISOString()

const FIRST_CHANGE_MS = Date.parse('2026-01-01T00:00:00Z')

export function contact(number: number): Json {
  return { ...CONTACT, id: externalIdOf(number), email: `contact-${number}@example.com`, updated_at: changedAt(number) }
}

const CONTACT = {
  object: 'contact',
  created_at: '2025-03-14T09:26:53.000Z',
  first_name: 'Ada',
  last_name: 'Okonkwo',
  phone: '+49 30 901820',
  company: { id: 'com_48151623', name: 'Example Manufacturing and Trading', domain: 'example.com' },
  address: { street: '12 Long Road', city: 'Berlin', postal_code: '10115', country: 'DE' },
  owner: { id: 'usr_0815', email: 'owner@example.com' },
  tags: ['customer', 'newsletter', 'trade-fair-2025'],
  custom: { segment: 'mid-market', seats: 25, renewal: '2026-12-31', score: 0.82 },
}
