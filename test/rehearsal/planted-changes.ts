/** Changes of a host's code, each of which a rehearsal has to see. */
import { sql } from 'drizzle-orm'
import { NonRetryable, NotYet } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { DeskCode, Ticket, TicketListed } from './desk-code.ts'

export interface Planted {
  readonly change: string
  plant(code: DeskCode): void
  /** What the log alone does not tell: docs/behaviour/rehearsal.md, "What is compared". It takes the old code to see it. */
  readonly takesBaseline?: true
}

/** Replaces steps of the code; each gets the one before. */
function replace<Step extends keyof DeskCode>(
  step: Step,
  make: (before: DeskCode[Step], code: DeskCode) => DeskCode[Step],
) {
  return (code: DeskCode): void => {
    const before = code[step]
    const bound = (typeof before === 'function' ? before.bind(code) : before) as DeskCode[Step]
    Object.assign(code, { [step]: make(bound, code) })
  }
}

const calls: readonly Planted[] = [
  {
    change: 'another URL, its endpoint named as before',
    plant: replace('ticketUrl', () => (id) => `http://127.0.0.1:9/v2/tickets/${id}`),
    takesBaseline: true,
  },
  { change: 'another endpoint', plant: endpoint((id) => `v2/tickets/${id}`) },
  {
    change: 'another ticket is read',
    plant: replace('readTicket', (read) => (integration) => read(integration, 'tkt_1')),
  },
  { change: 'another text in the body', plant: replace('commentOf', () => (ticket) => `Seen: ${ticket.subject}`) },
  {
    change: 'a text in the body with another end',
    plant: replace('commentOf', (text) => (ticket) => `${text(ticket)} `),
  },
  { change: 'another field in the body', plant: comment({ data: (text) => ({ text }) }) },
  { change: 'one field more in the body', plant: comment({ data: (body) => ({ body, internal: true }) }) },
  {
    change: 'a body that says more than its data',
    plant: comment({ sent: (body) => ({ body, silent: true }) }),
    takesBaseline: true,
  },
  { change: 'another method', plant: comment({ method: 'PUT' }) },
  { change: 'another method on the wire only', plant: comment({ wireMethod: 'PUT' }), takesBaseline: true },
  { change: 'another idempotency key', plant: replace('commentKey', () => (event) => `greeting-${event.id}`) },
  { change: 'no idempotency key', plant: replace('commentKey', () => () => null) },
  { change: 'a key that is the same for all', plant: replace('commentKey', () => () => 'seen') },
  {
    change: 'a call that is about another record',
    plant: replace('relation', () => () => ({ relatedTo: { type: 'ticket', id: 1 } })),
  },
  { change: 'a call that is about no record', plant: replace('relation', () => () => ({})) },
  { change: 'a call is left out', plant: replace('comment', () => async () => null) },
  { change: 'a read is left out', plant: replace('comments', () => async () => ({ comments: [1] })) },
  {
    change: 'one call more',
    plant: replace('store', (store, code) => async (integration, ticket) => {
      await store(integration, ticket)
      await code.comments(integration, ticket.id)
    }),
  },
  {
    change: 'the same call twice',
    plant: replace('readTicket', (read) => async (integration, id) => {
      await read(integration, id)
      return read(integration, id)
    }),
  },
  {
    change: 'one call more, whose failure is swallowed',
    plant: replace('onChanged', (changed, code) => async (integration, event) => {
      await code.comments(integration, event.ticket.id).catch(() => null)
      return changed(integration, event)
    }),
  },
  {
    change: 'calls in another order',
    plant: replace('onChanged', (changed, code) => async (integration, event) => {
      if (event.type !== 'ticket.created') return changed(integration, event)
      await code.comment(integration, event.ticket, event)
      code.comment = async () => null
      return changed(integration, event).finally(() => Reflect.deleteProperty(code, 'comment'))
    }),
  },
  { change: 'the cache is not used', plant: replace('me', (_, code) => (integration) => uncached(code, integration)) },
  {
    change: 'a call that asks past the request log',
    plant: replace('audit', (audit, code) => async (event, what) => {
      await audit(event, what)
      await fetch(`${code.baseUrl}/v1/me`).catch(() => null)
    }),
    takesBaseline: true,
  },
]

const rows: readonly Planted[] = [
  { change: 'another value in a column', plant: replace('subjectOf', () => (subject) => subject.toUpperCase()) },
  { change: 'a value that is cut', plant: replace('subjectOf', () => (subject) => subject.slice(0, 5)) },
  {
    change: 'another column is filled',
    plant: replace('row', (row) => (ticket) => ({ ...row(ticket), requester: ticket.id })),
  },
  { change: 'a fixed moment in place of now', plant: replace('seenAt', () => () => new Date(0)) },
  { change: 'a row is not written', plant: replace('store', () => async () => {}), takesBaseline: true },
  { change: 'another row is not written', plant: replace('audit', () => async () => {}), takesBaseline: true },
  { change: 'a note is not written', plant: replace('note', () => async () => {}), takesBaseline: true },
  {
    change: 'one row more',
    plant: replace('audit', (audit) => async (event, what) => {
      await audit(event, what)
      await audit(event, 'once more')
    }),
  },
  { change: 'another text in a row', plant: replace('audit', (audit) => (event, what) => audit(event, `${what}!`)) },
  {
    change: 'another name',
    plant: replace('customerName', () => (ticket) => ticket.requester_email),
    takesBaseline: true,
  },
  {
    change: 'a counter that counts each time',
    plant: replace('storeCustomer', (store, code) => async (integration, ticket) => {
      await store(integration, ticket)
      await code.db.execute(sql`update customers set tickets = tickets + 1 where email = ${ticket.requester_email}`)
    }),
  },
  {
    change: 'a row is deleted',
    plant: replace('note', (note, code) => async (event) => {
      await note(event)
      await code.db.execute(sql`delete from notes where event_id = ${event.id}`)
    }),
  },
  {
    change: 'a table is emptied',
    plant: replace('note', (note, code) => async (event) => {
      await note(event)
      await code.db.execute(sql`truncate notes`)
    }),
  },
  { change: 'another end of a ticket', plant: replace('closedStatus', () => () => 'solved') },
  { change: 'a ticket is left open', plant: replace('close', () => async () => {}) },
  {
    change: 'a write is rolled back',
    plant: replace('note', (_, code) => async (event) => {
      const written = code.db.transaction(async (tx) => {
        await tx.execute(
          sql`insert into notes (event_id, ticket, body) values (${event.id}, '', '') on conflict do nothing`,
        )
        throw new Error('back')
      })
      await written.catch(() => {})
    }),
    takesBaseline: true,
  },
]

const mappings: readonly Planted[] = [
  { change: 'another external id', plant: replace('externalIdOf', () => (ticket) => `desk:${ticket.id}`) },
  { change: 'another external id of another model', plant: replace('customerId', () => (ticket) => ticket.id) },
  {
    change: 'a mapping is left out',
    plant: replace('storeCustomer', (_, code) => async (_integration, ticket) => {
      const name = code.customerName(ticket)
      await code.db.execute(
        sql`insert into customers (email, name) values (${ticket.requester_email}, ${name}) on conflict do nothing`,
      )
    }),
    takesBaseline: true,
  },
  {
    change: 'an external id is pointed at another model',
    plant: replace('storeCustomer', (store) => async (integration, ticket) => {
      await store(integration, ticket)
      await integration.remapExternalId(ticket.requester_email, { type: 'customer', id: 'someone@example.com' })
    }),
  },
]

const ends: readonly Planted[] = [
  {
    change: 'it throws',
    plant: replace('note', () => async () => {
      throw new Error('no notes today')
    }),
  },
  { change: 'it swallows a failure', plant: replace('check', () => () => {}) },
  {
    change: 'it fails with another error',
    plant: replace('check', () => (event) => {
      if (event.comment?.body.includes('poison') === true) throw new NonRetryable('poison')
    }),
  },
  {
    change: 'it puts an item off',
    plant: replace('onTicket', (handle) => async (event) => {
      if (event.payload.status === 'pending') throw new NotYet('later', { retryAfterSeconds: 60 })
      await handle(event)
    }),
  },
  { change: 'an item that failed succeeds', plant: replace('onTicket', (_, code) => (event) => gently(code, event)) },
  {
    change: 'a gone ticket is a failure',
    plant: replace('close', () => async (ticket) => {
      throw new Error(`${ticket.id} is gone`)
    }),
  },
  {
    change: 'another result',
    plant: replace('onCommented', (commented) => async (integration, event) => ({
      ...((await commented(integration, event)) as object),
      version: 2,
    })),
  },
  {
    change: 'no result',
    plant: replace('onChanged', (changed) => async (integration, event) => {
      await changed(integration, event)
    }),
  },
]

export const PLANTED: readonly Planted[] = [...calls, ...rows, ...mappings, ...ends]

function endpoint(named: (id: string) => string): (code: DeskCode) => void {
  return replace(
    'readTicket',
    (_, code) => async (integration, id) =>
      (await integration.request(named(id), 'GET', ({ fetch }) =>
        fetch(code.ticketUrl(id), { headers: code.headers(integration) }),
      )) as Ticket,
  )
}

interface CommentChange {
  readonly method?: string
  readonly wireMethod?: string
  readonly data?: (text: string) => Record<string, unknown>
  readonly sent?: (text: string) => Record<string, unknown>
}

function comment({ method = 'POST', wireMethod = method, data, sent }: CommentChange): (code: DeskCode) => void {
  return replace('comment', (_, code) => (integration, ticket, event) => {
    const given = data?.(code.commentOf(ticket)) ?? { body: code.commentOf(ticket) }
    const body = JSON.stringify(sent?.(code.commentOf(ticket)) ?? given)
    return integration.request(
      `v1/tickets/${ticket.id}/comments`,
      method,
      ({ fetch, idempotencyKey }) =>
        fetch(`${code.ticketUrl(ticket.id)}/comments`, {
          method: wireMethod,
          headers: { ...code.headers(integration), 'idempotency-key': idempotencyKey ?? '' },
          body,
        }),
      { data: given as never, idempotencyKey: code.commentKey(event), ...code.relation(ticket) },
    )
  })
}

const uncached = (code: DeskCode, integration: Integration): Promise<unknown> =>
  integration.request('v1/me', 'GET', ({ fetch }) =>
    fetch(`${code.baseUrl}/v1/me`, { headers: code.headers(integration) }),
  )

async function gently(code: DeskCode, { integration, payload }: TicketListed): Promise<void> {
  await code.store(integration, payload)
  await code.storeCustomer(integration, payload)
  if (payload.status === 'pending') await code.comments(integration, payload.id)
}
