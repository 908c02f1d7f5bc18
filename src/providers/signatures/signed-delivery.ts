/** What all schemes that sign a message have in common: the signatures, the time, the message. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { WebhookRequest } from '../webhook-request.ts'
import type { Field } from './delivery-values.ts'
import { decodeDigest, fieldsOf, lengthOf, readPlace, readTime } from './delivery-values.ts'
import type { MessageScheme, RefusalReason, SignedPart } from './scheme-rules.ts'
import type { SignedFrom } from './signed-message.ts'
import { BODY_ALONE, messageOf } from './signed-message.ts'

/** A public key's check costs a hundred times an HMAC's comparison. No provider sends more signatures than this. */
const MAX_SIGNATURES = 10

export interface SignedDelivery {
  readonly signatures: readonly Buffer[]
  readonly pieces: readonly Uint8Array[]
}

/** @param bytes that a signature of the scheme has; null: it has no fixed length */
export function signedDelivery(
  scheme: MessageScheme,
  request: WebhookRequest,
  from: SignedFrom,
  bytes: number | null,
): SignedDelivery | { readonly reason: RefusalReason } {
  const found = signaturesIn(scheme, request)
  if ('reason' in found) return found
  if (scheme.single !== undefined && lengthOf(request, scheme.single) !== 1) return { reason: 'signed_part_missing' }
  const { texts, fields } = found
  const isDer = scheme.scheme === 'ecdsa' && scheme.signatureFormat !== 'raw'
  const signatures = texts
    .flatMap((text) => decodeDigest(text, scheme.encoding, bytes) ?? [])
    .filter((signature) => !isDer || isDerSignature(signature))
  if (signatures.length === 0 || signatures.length > MAX_SIGNATURES) return { reason: 'signature_malformed' }

  let timestamp: string | null = null
  if (scheme.timestamp !== undefined) {
    const time = readTime(request, scheme.timestamp, fields, scheme.tolerance)
    if ('reason' in time) return time
    timestamp = time.text
  }
  for (const { of, is } of scheme.expects ?? []) {
    const read = readPlace(request, of, fields)
    if ('fault' in read || read.value !== is) return { reason: 'value_unexpected' }
  }
  const digest = scheme.bodyDigest === undefined ? null : readPlace(request, scheme.bodyDigest, fields)
  const digestGiven = digest !== null && 'value' in digest
  const parts = signedParts(scheme, digestGiven)
  const message = messageOf(parts, request, from, { timestamp, fields })
  if ('reason' in message) return message
  const isBodyProven =
    scheme.bodyDigest === undefined || digest === null || request.rawBody.length === 0
      ? true
      : 'value' in digest
        ? digestMatches(digest.value, request.rawBody, scheme.bodyDigest)
        : message.pieces.some((piece, at) => isSortedForm(parts[at]) && piece.length > 0)
  return isBodyProven ? { signatures, pieces: message.pieces } : { reason: 'body_digest_mismatch' }
}

/** What is signed of a delivery that has a digest of its body, or none. */
export function signedParts({ signed = BODY_ALONE }: MessageScheme, hasDigest: boolean): readonly SignedPart[] {
  return hasDigest ? signed.filter((part) => !isSortedForm(part)) : signed
}

const isSortedForm = (part: SignedPart | undefined): boolean => typeof part === 'object' && part.part === 'sortedForm'

function signaturesIn(
  scheme: MessageScheme,
  request: WebhookRequest,
): { readonly texts: readonly string[]; readonly fields: readonly Field[] } | { readonly reason: RefusalReason } {
  const values: string[] = []
  for (const place of placesOf(scheme)) {
    const read = readPlace(request, place)
    if ('value' in read) values.push(read.value)
    else if (read.fault === 'repeated') return { reason: 'header_repeated' }
  }
  if (values.length === 0) return { reason: 'signature_missing' }
  const { fields: list, prefix = '' } = scheme
  const fields = list === undefined ? [] : values.flatMap((value) => fieldsOf(value, list.separator))
  const candidates =
    list === undefined ? values : fields.flatMap(([name, value]) => (name === list.signature ? [value] : []))
  const texts = candidates.flatMap((text) => (text.startsWith(prefix) ? [text.slice(prefix.length)] : []))
  return texts.length > 0 ? { texts, fields } : { reason: 'signature_malformed' }
}

function placesOf({ header, query, json, form }: MessageScheme) {
  if (header !== undefined) return (typeof header === 'string' ? [header] : header).map((name) => ({ header: name }))
  if (query !== undefined) return [{ query }]
  return json !== undefined ? [{ json }] : [{ form: form ?? '' }]
}

/** A sequence of two integers, each in its shortest form, and nothing else: RFC 3279, section 2.2.3. */
function isDerSignature(der: Buffer): boolean {
  if (der.length < 8 || der[0] !== 0x30 || der[1] !== der.length - 2) return false
  const rLength = der[3] ?? 0
  const r = der.subarray(4, 4 + rLength)
  const s = der.subarray(6 + rLength)
  const isShortest = (integer: Buffer) =>
    integer.length > 0 &&
    (integer[0] ?? 0) < 0x80 &&
    !(integer[0] === 0 && integer.length > 1 && (integer[1] ?? 0) < 0x80)
  return der[2] === 0x02 && der[4 + rLength] === 0x02 && der[5 + rLength] === s.length && isShortest(r) && isShortest(s)
}

/** Whether a text is the digest of these bytes, in constant time. */
export function digestMatches(
  text: string,
  bytes: Uint8Array,
  { hash, encoding }: { readonly hash: string; readonly encoding: 'hex' | 'base64' | 'base64url' },
): boolean {
  const expected = createHash(hash).update(bytes).digest()
  const given = decodeDigest(text, encoding, expected.length)
  return given !== null && timingSafeEqual(given, expected)
}
