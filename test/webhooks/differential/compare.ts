/** Has our engine and a maker's own code judge the same deliveries. */
import type { SignatureVerdict } from '../../../src/providers/signatures/scheme-rules.ts'
import { webhookRequest } from '../../../src/providers/webhook-request.ts'
import { WEBHOOK_DOORS } from '../../../src/webhooks/catalogue/index.ts'
import type { SchemeKeys } from '../../support/scheme-keys.ts'
import { verdictOf } from '../../support/signatures.ts'
import type { Spoilt } from './deliveries.ts'
import { BASE_URL, Dice, delivery, NOW } from './deliveries.ts'
import type { Judge, Maker } from './makers.ts'

export interface Comparison {
  readonly door: string
  readonly judged: number
  readonly bothTook: number
  readonly bothRefused: number
  /** By the name of the documented exception: docs/behaviour/webhook-signatures.md, "What makers' code does otherwise". */
  readonly exceptions: Readonly<Record<string, number>>
  readonly disagreements: readonly string[]
}

export async function compare(
  maker: Maker,
  judge: Judge,
  keys: SchemeKeys,
  { times, seed }: { readonly times: number; readonly seed: number },
): Promise<Comparison> {
  const door = WEBHOOK_DOORS[maker.door]
  if (door === undefined) throw new Error(`there is no door ${maker.door}`)
  const dice = new Dice(seed)
  const exceptions: Record<string, number> = {}
  const disagreements: string[] = []
  let bothTook = 0
  let bothRefused = 0
  for (let n = 0; n < times; n += 1) {
    const sent = delivery({ door, keys }, dice)
    const headers = new Headers()
    for (const [name, value] of sent.headers) headers.append(name, value)
    const [path = '', query = ''] = sent.url.split(/\?(.*)/s)
    const request = webhookRequest({
      method: sent.method,
      path,
      query,
      headers,
      rawBody: new Uint8Array(sent.body),
      receivedAt: NOW,
      toleranceSeconds: 300,
    })
    const metadata = door.sample.metadata ?? {}
    const ours = await verdictOf(door.signature, request, [keys.own.secret], {
      metadata,
      baseUrl: BASE_URL,
      fetched: keys.fetched,
    })
    const given = {
      url: BASE_URL + sent.url,
      method: sent.method,
      headers: Object.fromEntries(headers),
      body: sent.body,
      secret: keys.own.secret,
    }
    const theirs = await judge(given)
    if (sent.kind === 'none' && !(ours.kind === 'verified' && theirs))
      disagreements.push(`a right delivery is refused by ${theirs ? 'us' : 'them'}: ${shown(sent, ours)}`)
    else if ((ours.kind === 'verified') === theirs) {
      if (theirs) bothTook += 1
      else bothRefused += 1
    } else {
      const isHex = 'encoding' in door.signature && door.signature.encoding === 'hex'
      const inSmall = Object.fromEntries([...headers].map(([each, value]) => [each, value.toLowerCase()]))
      const isCapital = ours.kind === 'verified' && isHex && (await judge({ ...given, headers: inSmall }))
      const name = isCapital ? 'hex in capitals' : exceptionOf(maker, sent, ours)
      if (name === null) disagreements.push(shown(sent, ours))
      else exceptions[name] = (exceptions[name] ?? 0) + 1
    }
  }
  return { door: maker.door, judged: times, bothTook, bothRefused, exceptions, disagreements }
}

/** Null: one of the two is wrong. */
function exceptionOf(maker: Maker, sent: Spoilt, ours: SignatureVerdict): string | null {
  if (ours.kind === 'verified') {
    if (sent.body.length === 0) return 'an empty body'
    const text = sent.body.toString()
    if (!Buffer.from(text).equals(sent.body)) return 'a body that is no UTF-8'
    if (text.startsWith('\uFEFF')) return 'a byte-order mark'
    return sent.url.endsWith('?') ? 'a question mark with nothing behind it' : null
  }
  const names = sent.headers.map(([each]) => each)
  if (new Set(names).size < names.length) return 'a header that is repeated'
  switch (ours.kind === 'refused' ? ours.reason : null) {
    case 'header_repeated':
      return 'a header that is repeated'
    case 'signature_malformed':
      return 'a signature in another spelling'
    case 'time_malformed':
      return 'a time in another spelling'
    case 'time_missing':
      return maker.time === undefined ? null : 'a time that is not checked'
    case 'time_off':
      if (maker.time === 'unchecked') return 'a time that is not checked'
      return maker.time === 'age only' ? 'a time to come' : null
    default:
      return null
  }
}

function shown({ kind, method, url, headers, body }: Spoilt, ours: SignatureVerdict): string {
  return `${kind}: ours ${JSON.stringify(ours)}; ${method} ${url} ${JSON.stringify(headers)} ${body.toString('latin1').slice(0, 1_500)}`
}
