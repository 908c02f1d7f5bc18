/** A body as its row holds it. Rule: docs/behaviour/requests.md, "The row" and "Response cache". */
import { createHash } from 'node:crypto'
import type { RedactionPath } from '../../core/redaction.ts'
import { cutToBytes, redactBody } from '../../core/redaction.ts'

export interface BodyRules {
  readonly secrets: readonly string[]
  readonly paths: readonly RedactionPath[]
  /** Null: whole. */
  readonly maxBytes: number | null
  readonly isUnlogged: boolean
}

const NOT_SERIALISABLE = '[not serialisable]'

/** Redacted first, then cut; a note where it can't or must not be held. */
export function storedBody(body: unknown, { secrets, paths, maxBytes, isUnlogged }: BodyRules): string | null {
  if (body === undefined || body === null) return null
  const bytes = bytesOf(body)
  if (isUnlogged) {
    const size = bytes?.length ?? Buffer.byteLength(textOf(body) ?? '')
    return textOf(body) === null ? NOT_SERIALISABLE : `[not logged, ${size} bytes]`
  }
  if (bytes !== null)
    return `[binary, ${bytes.length} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}]`
  const text = textOf(body)
  return text === null ? NOT_SERIALISABLE : cutToBytes(redactBody(storable(text), secrets, paths), maxBytes)
}

/**
 * What a call returned as JSON text, whole, so that a cached call gives the same; null when it can't: it is no JSON, was no
 * UTF-8, or something in it is redacted.
 *
 * @param body what of it redaction paths are about
 */
export function cacheableText(
  returned: unknown,
  body: unknown,
  { secrets, paths }: Pick<BodyRules, 'secrets' | 'paths'>,
): string | null {
  if (bytesOf(returned) !== null || bytesOf(body) !== null) return null
  const json = serialised(returned)
  // A byte that is no UTF-8 has been decoded as U+FFFD (Encoding Standard, "UTF-8 decode").
  if (json === null || json.includes('\ufffd')) return null
  const text = textOf(body)
  if (text === null || redactBody(text, secrets, paths) !== text || redactBody(json, secrets) !== json) return null
  return json
}

/** Postgres text holds no U+0000 and UTF-8 no half of a surrogate pair: neither must cost the row. */
export function storable(text: string): string {
  if (!/[\0\ud800-\udfff]/.test(text)) return text
  return text.replaceAll('\u0000', '').replace(/\p{Surrogate}/gu, '\ufffd')
}

function bytesOf(body: unknown): Uint8Array | null {
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  return ArrayBuffer.isView(body) ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : null
}

function textOf(body: unknown): string | null {
  return typeof body === 'string' ? body : serialised(body)
}

/** Null for what JSON can't hold: cycles, big integers, functions, undefined. */
function serialised(value: unknown): string | null {
  try {
    return JSON.stringify(value) ?? null
  } catch {
    return null
  }
}
