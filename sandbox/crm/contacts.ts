/** The CRM's contacts, in memory. Two CRMs have the same ones at the start. */
export interface Contact {
  id: string
  name: string
  email: string
  updated_at: string
}

export interface ContactStore {
  /** By the time of their last change, then by id. */
  all(): Contact[]
  create(given: { name: string; email: string }): Contact
  /** @returns null without such a contact */
  change(id: string, given: { name?: string | undefined; email?: string | undefined }): Contact | null
}

const NAMES = ['Ada Lovelace', 'Grace Hopper', 'Alan Turing', 'Edsger Dijkstra', 'Barbara Liskov']
const FIRST_CHANGE = Date.parse('2026-01-05T09:00:00Z')
const HOUR_MS = 3_600_000

export function createContactStore(now: () => Date): ContactStore {
  const byId = new Map<string, Contact>()
  const add = (name: string, email: string, updatedAt: Date): Contact => {
    const contact = { id: `con_${byId.size + 1}`, name, email, updated_at: updatedAt.toISOString() }
    byId.set(contact.id, contact)
    return contact
  }
  for (const [place, name] of NAMES.entries())
    add(name, `${name.split(' ')[0]?.toLowerCase()}@example.com`, new Date(FIRST_CHANGE + place * HOUR_MS))
  return {
    all: () =>
      [...byId.values()].sort((a, b) =>
        a.updated_at === b.updated_at ? a.id.localeCompare(b.id) : a.updated_at < b.updated_at ? -1 : 1,
      ),
    create: ({ name, email }) => add(name, email, now()),
    change(id, { name, email }) {
      const before = byId.get(id)
      if (before === undefined) return null
      const after = {
        ...before,
        name: name ?? before.name,
        email: email ?? before.email,
        updated_at: now().toISOString(),
      }
      byId.set(id, after)
      return after
    },
  }
}
