/** Deliveries at random, right ones and spoilt ones, the same for the same seed. */
import type { DeliveryPlace, SignatureScheme } from '../../../src/providers/signatures/scheme-rules.ts'
import { signDelivery } from '../../../src/providers/signatures/sign-delivery.ts'
import type { WebhookDoor } from '../../../src/webhooks/catalogue/door.ts'
import type { SchemeKeys } from '../../support/scheme-keys.ts'

export const NOW = new Date('2026-03-10T12:00:00.000Z')
export const BASE_URL = 'https://hooks.example.com'

export interface Spoilt {
  readonly kind: string
  readonly method: string
  /** Path and query. */
  readonly url: string
  /** As they are sent, repeats apart. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Buffer
}

/** mulberry32: small, and good enough to pick mutations. */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T
  }
}

const WORDS = [
  '',
  'a',
  'order',
  'Zoë',
  '😀',
  'a&b=c',
  'x y',
  '"quoted"',
  '\\n',
  '{}',
  '0',
  'null',
  '%41',
  'é'.repeat(40),
]
const FORM = 'application/x-www-form-urlencoded'
/** Seconds from now: on both sides of each tolerance, and far away. */
const MOVED = [-86_400, -3_601, -601, -301, -300, -299, -61, -60, -1, 1, 60, 61, 299, 300, 301, 601, 3_601, 86_400]

interface Subject {
  readonly door: WebhookDoor
  readonly keys: SchemeKeys
}

export function delivery({ door, keys }: Subject, dice: Dice): Spoilt {
  const kind = dice.of(MUTATIONS)
  const at = kind === 'time moved' ? new Date(NOW.getTime() + dice.of(MOVED) * 1_000) : NOW
  const by = kind === 'wrong secret' ? keys.other : keys.own
  const signed = signDelivery(
    door.signature,
    {
      url: urlOf(dice),
      headers: { 'content-type': 'application/json', ...door.sample.headers },
      body: bodyOf(door, dice),
    },
    {
      key: by.signWith,
      at,
      deliveryId: `msg_${dice.below(1e9)}`,
      metadata: door.sample.metadata ?? {},
      baseUrl: BASE_URL,
      keyId: keys.keyId,
    },
  )
  const whole = { ...signed, kind, headers: Object.entries(signed.headers), body: Buffer.from(signed.body) }
  return spoil(whole, dice, door.signature)
}

const MUTATIONS = [
  'none',
  'none',
  'none',
  'a bit of the signature',
  'a byte of the signature',
  'a bit of the body',
  'a byte of the body',
  'a byte more in the body',
  'a byte less in the body',
  'body written again',
  'byte-order mark',
  'body in Latin-1',
  'no body',
  'time moved',
  'time rewritten',
  'header case',
  'header with spaces around',
  'header folded',
  'header repeated',
  'header repeated with another value',
  'header removed',
  'header emptied',
  'header cut off',
  'list with forged ones before it',
  'list with forged ones behind it',
  'list cut off',
  'wrong secret',
  'another header',
  'another query',
  'another path',
  'another method',
  'another content type',
] as const

function urlOf(dice: Dice): string {
  const query = dice.of(['', '', '?a=1', '?a=1&b=two', '?b=%41&a=x%20y'])
  return `/integrations/acme/${dice.below(100)}/webhook${query}`
}

function bodyOf(door: WebhookDoor, dice: Dice): string {
  const { body, headers } = door.sample
  const isForm = headers?.['content-type'] === FORM
  const members = Array.from({ length: dice.below(4) }, () => [`k${dice.below(5)}`, dice.of(WORDS)] as const)
  if (isForm) return `${body}&${members.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`
  const parsed: unknown = JSON.parse(body)
  if (Array.isArray(parsed)) return `${JSON.stringify([...parsed, Object.fromEntries(members)])}\r\n`
  return JSON.stringify({ ...(parsed as object), ...Object.fromEntries(members) }, null, dice.of([0, 0, 2]))
}

function spoil(sent: Spoilt, dice: Dice, scheme: SignatureScheme): Spoilt {
  const place = signaturePlace(scheme)
  const inHeader = 'header' in place ? place.header : null
  const withSignature = (change: (value: string) => string | readonly string[]): Spoilt => {
    if (inHeader !== null) return withHeader(sent, inHeader, change)
    const text = sent.body.toString()
    const found = 'json' in place ? new RegExp(`"${place.json}":\\s*"([^"]*)"`).exec(text) : null
    if (found?.[1] === undefined) return sent
    return { ...sent, body: Buffer.from(text.replace(found[1], () => [change(found[1] ?? '')].flat().join(','))) }
  }
  const withBody = (change: (body: Buffer) => Buffer): Spoilt => ({ ...sent, body: change(sent.body) })
  const at = (length: number) => dice.below(Math.max(length, 1))
  const flipped = (text: string, change: (code: number) => number) => {
    const index = at(text.length)
    const code = change(text.charCodeAt(index)) & 0x7f
    // A header holds no control characters: the server would not have let it in.
    return (
      text.slice(0, index) + (code < 0x21 || code === 0x7f ? '~' : String.fromCharCode(code)) + text.slice(index + 1)
    )
  }
  const changedByte = (body: Buffer, change: (byte: number) => number) => {
    const index = at(body.length)
    return Buffer.from(body.map((byte, each) => (each === index ? change(byte) & 0xff : byte)))
  }
  const anyHeader = dice.of(sent.headers.map(([name]) => name)) ?? ''
  const [path = '', query = ''] = sent.url.split(/\?(.*)/s)

  switch (sent.kind as (typeof MUTATIONS)[number]) {
    case 'a bit of the signature':
      return withSignature((value) => flipped(value, (code) => code ^ (1 << dice.below(7))))
    case 'a byte of the signature':
      return withSignature((value) => flipped(value, () => 0x21 + dice.below(0x5e)))
    case 'a bit of the body':
      return withBody((body) => changedByte(body, (byte) => byte ^ (1 << dice.below(8))))
    case 'a byte of the body':
      return withBody((body) => changedByte(body, () => dice.below(256)))
    case 'a byte more in the body':
      return withBody((body) => {
        const index = at(body.length + 1)
        return Buffer.concat([
          body.subarray(0, index),
          Buffer.from([dice.of([0x0a, 0x20, 0x00, 0x41])]),
          body.subarray(index),
        ])
      })
    case 'a byte less in the body':
      return withBody((body) => {
        const index = at(body.length)
        return Buffer.concat([body.subarray(0, index), body.subarray(index + 1)])
      })
    case 'body written again':
      return withBody((body) => Buffer.from(rewritten(body.toString())))
    case 'byte-order mark':
      return withBody((body) => Buffer.concat([Buffer.from('\uFEFF'), body]))
    case 'body in Latin-1':
      return withBody((body) => Buffer.from(body.toString(), 'latin1'))
    case 'no body':
      return withBody(() => Buffer.alloc(0))
    case 'time rewritten':
      return timeRewritten(sent, scheme, dice)
    case 'header case':
      return { ...sent, headers: sent.headers.map(([name, value]) => [dice.of([name.toUpperCase(), name]), value]) }
    case 'header with spaces around':
      return withHeader(sent, anyHeader, (value) => `  ${value}\t`)
    case 'header folded':
      return withSignature((value) => dice.of([`${value},${value}`, `${value}, ${value}`, `${value} ,${value}`]))
    case 'header repeated':
      return withHeader(sent, inHeader ?? anyHeader, (value) => [value, value])
    case 'header repeated with another value':
      return withHeader(sent, dice.of([inHeader ?? anyHeader, anyHeader]), (value) =>
        dice.of([
          [value, 'forged'],
          ['forged', value],
        ]),
      )
    case 'header removed':
      return withHeader(sent, dice.of([inHeader ?? anyHeader, anyHeader]), () => [])
    case 'header emptied':
      return withHeader(sent, dice.of([inHeader ?? anyHeader, anyHeader]), () => '')
    case 'header cut off':
      return withHeader(sent, dice.of([inHeader ?? anyHeader, anyHeader]), (value) => value.slice(0, at(value.length)))
    case 'list with forged ones before it':
      return withSignature((value) => `${forged(value, scheme, dice)}${separatorOf(scheme)}${value}`)
    case 'list with forged ones behind it':
      return withSignature((value) => `${value}${separatorOf(scheme)}${forged(value, scheme, dice)}`)
    case 'list cut off':
      return withSignature((value) => {
        const entries = `${value}${separatorOf(scheme)}${forged(value, scheme, dice)}`.split(separatorOf(scheme))
        return entries.slice(0, 1 + dice.below(entries.length)).join(separatorOf(scheme))
      })
    case 'another header':
      return withHeader(sent, anyHeader, (value) => flipped(value, (code) => code ^ (1 << dice.below(7))))
    case 'another query':
      return { ...sent, url: `${path}?${dice.of([`${query}&z=1`, `${query}x`, query.slice(1), 'bodySHA256=00'])}` }
    case 'another path':
      return { ...sent, url: `${path}/${query === '' ? '' : `?${query}`}` }
    case 'another method':
      return { ...sent, method: dice.of(['PUT', 'GET', 'PATCH']) }
    case 'another content type':
      return withHeader(sent, 'content-type', (value) => (value === FORM ? 'application/json' : FORM))
    default:
      return sent
  }
}

function withHeader(sent: Spoilt, name: string, change: (value: string) => string | readonly string[]): Spoilt {
  const headers = sent.headers.flatMap(([each, value]) =>
    each === name ? [change(value)].flat().map((changed) => [each, changed] as const) : [[each, value] as const],
  )
  return { ...sent, headers }
}

function signaturePlace(scheme: SignatureScheme): DeliveryPlace {
  if (scheme.scheme === 'standard-webhooks') return { header: `${scheme.names ?? 'webhook'}-signature` }
  if (scheme.scheme === 'token' && scheme.basic === true) return { header: 'authorization' }
  const { header } = scheme
  const json = 'json' in scheme ? scheme.json : undefined
  if (header !== undefined) return { header: typeof header === 'string' ? header : (header[0] ?? '') }
  return { json: json ?? '' }
}

function separatorOf(scheme: SignatureScheme): string {
  if (scheme.scheme === 'standard-webhooks') return ' '
  return ('fields' in scheme && scheme.fields?.separator) || ','
}

/** One of the same form, of other bytes. */
function forged(value: string, scheme: SignatureScheme, dice: Dice): string {
  const entries = value.split(separatorOf(scheme))
  const last = entries.at(-1) ?? ''
  const index = 4 + dice.below(Math.max(last.length - 8, 1))
  return last.slice(0, index) + (last[index] === '0' ? '1' : '0') + last.slice(index + 1)
}

function timeRewritten(sent: Spoilt, scheme: SignatureScheme, dice: Dice): Spoilt {
  const now = NOW.getTime() / 1_000
  const time = dice.of([
    `${now + 1}`,
    `0${now}`,
    `+${now}`,
    `${now}.0`,
    `${now}abc`,
    `${now - 1}`,
    '',
    'now',
    `${now}000`,
  ])
  if (scheme.scheme === 'standard-webhooks')
    return withHeader(sent, `${scheme.names ?? 'webhook'}-timestamp`, () => time)
  if (!('timestamp' in scheme) || scheme.timestamp === undefined) return sent
  if ('header' in scheme.timestamp) return withHeader(sent, scheme.timestamp.header, () => time)
  if ('field' in scheme.timestamp) {
    const { field } = scheme.timestamp
    return withHeader(sent, String(scheme.header), (value) =>
      value.replace(new RegExp(`${field}=\\d+`), `${field}=${time}`),
    )
  }
  return sent
}

function rewritten(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 1)
  } catch {
    return new URLSearchParams(text).toString()
  }
}
