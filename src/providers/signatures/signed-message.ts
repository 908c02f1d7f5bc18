/** The bytes that a signature covers, put together from the parts that a scheme names. */
import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Json } from '../../framework/json.ts'
import type { WebhookRequest } from '../webhook-request.ts'
import type { Field } from './delivery-values.ts'
import { isForm, readPlace } from './delivery-values.ts'
import type { RefusalReason, SignedPart } from './scheme-rules.ts'

/** What is known beside the delivery itself. */
export interface SignedFrom {
  readonly metadata: Readonly<Record<string, Json>>
  /** Where providers reach the API; null: not configured. */
  readonly baseUrl: string | null
}

export type Message = { readonly pieces: readonly Uint8Array[] } | { readonly reason: RefusalReason }

export const BODY_ALONE: readonly SignedPart[] = [{ part: 'body' }]

/** @param timestamp as it was signed; null: the scheme signs none */
export function messageOf(
  parts: readonly SignedPart[],
  request: WebhookRequest,
  from: SignedFrom,
  { timestamp, fields }: { readonly timestamp: string | null; readonly fields: readonly Field[] },
): Message {
  const pieces: Uint8Array[] = []
  for (const part of parts) {
    const piece = pieceOf(part, request, from, { timestamp, fields })
    if (!(piece instanceof Uint8Array)) return piece
    pieces.push(piece)
  }
  return { pieces }
}

function pieceOf(
  part: SignedPart,
  request: WebhookRequest,
  from: SignedFrom,
  { timestamp, fields }: { readonly timestamp: string | null; readonly fields: readonly Field[] },
): Uint8Array | { readonly reason: RefusalReason } {
  if (typeof part === 'string') return Buffer.from(part)
  switch (part.part) {
    case 'body':
      return request.rawBody
    case 'timestamp':
      return timestamp === null ? { reason: 'time_missing' } : Buffer.from(timestamp, 'latin1')
    case 'method':
      return Buffer.from(request.method)
    case 'crc32':
      return Buffer.from(String(crc32(request.rawBody)))
    case 'bodyDigest':
      return Buffer.from(createHash(part.hash).update(request.rawBody).digest(part.encoding))
    case 'sortedForm':
      return Buffer.from(sortedForm(request))
    case 'url': {
      const url = publicUrl(request, from)
      return url === null ? { reason: 'url_unknown' } : Buffer.from(partlyDecoded(url, part.decoded ?? ''))
    }
    case 'metadata': {
      const value = from.metadata[part.key]
      return typeof value === 'string' && value !== '' ? Buffer.from(value) : { reason: 'signed_part_missing' }
    }
    case 'value': {
      const read = readPlace(request, part.of, fields)
      // A header's characters are its bytes, one each (RFC 9110, section 5.5): those were signed.
      if ('value' in read) return Buffer.from(read.value, 'header' in part.of || 'field' in part.of ? 'latin1' : 'utf8')
      return part.optional === true && read.fault === 'missing'
        ? new Uint8Array()
        : { reason: read.fault === 'missing' ? 'signed_part_missing' : 'header_repeated' }
    }
    case 'lines':
      return linesOf(part, request)
  }
}

/**
 * Name and value of each parameter; of equal ones, one. A forger may send 500,000 names, of any kind, so none is looked up: one by one
 * that takes their square, and by their hashes as well where they were chosen to collide.
 */
function sortedForm(request: WebhookRequest): string {
  if (!isForm(request)) return ''
  return [...new URLSearchParams(request.text())]
    .sort(([name, value], [other, its]) => order(name, other) || order(value, its))
    .filter(([name, value], at, all) => at === 0 || name !== all[at - 1]?.[0] || value !== all[at - 1]?.[1])
    .map(([name, value]) => name + value)
    .join('')
}

/** By code unit, as `sort()` without a comparison. */
const order = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1)

/** The base URL or metadata `webhook_url` says how the provider spells it; the query is that of the delivery. */
function publicUrl({ url }: WebhookRequest, { metadata, baseUrl }: SignedFrom): string | null {
  const mark = url.indexOf('?')
  const [path, query] = mark < 0 ? [url, ''] : [url.slice(0, mark), url.slice(mark)]
  const { webhook_url: registered } = metadata
  if (typeof registered === 'string' && URL.canParse(registered)) return registered.replace(/[?#].*$/s, '') + query
  if (baseUrl === null || !URL.canParse(baseUrl)) return null
  const base = baseUrl.replace(/\/+$/, '')
  // A proxy may, or may not, take off the base URL's own path.
  const below = new URL(base).pathname.replace(/\/+$/, '')
  return (below !== '' && path.startsWith(`${below}/`) ? new URL(base).origin : base) + path + query
}

function partlyDecoded(url: string, characters: string): string {
  if (characters === '') return url
  return url.replace(/%[0-9a-f]{2}/gi, (code) => {
    const character = String.fromCharCode(Number.parseInt(code.slice(1), 16))
    return characters.includes(character) ? character : code
  })
}

function linesOf(
  { by, names }: Extract<SignedPart, { part: 'lines' }>,
  request: WebhookRequest,
): Uint8Array | { readonly reason: RefusalReason } {
  const json = request.json()
  const members = new Map(typeof json === 'object' && json !== null ? Object.entries(json) : [])
  const kind = members.get(by)
  if (typeof kind !== 'string' || !Object.hasOwn(names, kind)) return { reason: 'signed_part_missing' }
  const lines: string[] = []
  for (const name of names[kind] ?? []) {
    const optional = name.endsWith('?')
    const key = optional ? name.slice(0, -1) : name
    const value = members.get(key)
    if (typeof value === 'string') lines.push(`${key}\n${value}\n`)
    else if (!optional || (value !== undefined && value !== null)) return { reason: 'signed_part_missing' }
  }
  return Buffer.from(lines.join(''))
}
