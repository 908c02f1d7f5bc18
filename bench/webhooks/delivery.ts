/** The delivery of this bench: 2 KB of JSON with the id and the type in it, as Stripe's events have them, signed as a whole. */
import { createHash, createHmac } from 'node:crypto'

export const SIGNATURE_HEADER = 'x-bench-signature'
export const SECRET = 'whsec_of_the_bench_0123456789abcdef'
export const EVENT_TYPE = 'invoice.paid'

const BODY_BYTES = 2_048
/** More than one line of the invoice takes. */
const LINE_BYTES = 220
/** Stands for the id in {@link BODY}; of the same length. */
export const ID_TOKEN = 'evt_________________________'

export interface SignedDelivery {
  readonly id: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** An id that no other call of this process gives. */
export function newId(): string {
  made += 1
  return `evt_${RUN}${made.toString(36).padStart(12, '0')}`
}

export function signedDelivery(id = newId()): SignedDelivery {
  const body = BODY.replace(ID_TOKEN, id)
  const signature = createHmac('sha256', SECRET).update(body).digest('hex')
  return { id, body, headers: { ...HEADERS, [SIGNATURE_HEADER]: signature } }
}

const RUN = Date.now().toString(36).padStart(12, '0')
let made = 0

/** As a provider's sender would set them. */
const HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'user-agent': 'Bench/1.0 (+https://example.com/docs/webhooks)',
  accept: '*/*; q=0.5, application/xml',
  'cache-control': 'no-cache',
} as const

/** Some of it repeats and some does not, as in a provider's own: Postgres compresses what is longer than 2 KB a row. */
export const BODY: string = bodyOfSize()

function bodyOfSize(): string {
  const lines: object[] = []
  const text = (memo: string) =>
    JSON.stringify({
      id: ID_TOKEN,
      type: EVENT_TYPE,
      created: 1_767_225_600,
      livemode: false,
      data: {
        object: { id: opaque('in', 0), customer: opaque('cus', 0), currency: 'eur', status: 'paid', lines, memo },
      },
    })
  for (let at = 1; text('').length < BODY_BYTES - LINE_BYTES; at += 1) {
    const price = { id: opaque('price', at), unit_amount: 100 * at, recurring: { interval: 'month' } }
    lines.push({ id: opaque('il', at), object: 'line_item', quantity: at, description: `Seat ${at}`, price })
  }
  return text(
    opaque('memo', 0)
      .repeat(LINE_BYTES)
      .slice(0, BODY_BYTES - text('').length),
  )
}

/** Looks random, and is the same in every run. */
function opaque(prefix: string, seed: number): string {
  return `${prefix}_${createHash('sha256').update(`${prefix}${seed}`).digest('base64url').slice(0, 24)}`
}
