/** A body as its row holds it. Rule: docs/behaviour/requests.md, "The row" and "Response cache". */
import { createHash } from 'node:crypto'
import type { Framework } from '../framework/context.ts'
import type { RedactionPath } from '../framework/redaction.ts'
import { LARGE_LENGTH, redacted } from '../framework/redaction-thread.ts'
import { errorKind } from '../framework/thrown.ts'
import type { Identity } from '../observability/spans.ts'

export interface BodyRules {
  readonly secrets: readonly string[]
  readonly paths: readonly RedactionPath[]
  /** Null: whole. */
  readonly maxBytes: number | null
  readonly isUnlogged: boolean
}

const NOT_SERIALISABLE = '[not serialisable]'

/** Large JSON texts of what was decoded: writing it again would hold up everything else. */
const rawTexts = new WeakMap<object, string>()

/** @param text what the decoded body was read from */
export function keepLargeText(decoded: unknown, text: string): void {
  if (typeof decoded === 'object' && decoded !== null && text.length > LARGE_LENGTH) rawTexts.set(decoded, text)
}

/** Redacted first, then cut; a note where it can't or must not be held. Never throws: the call was made, and has its row. */
export async function storedBody(
  framework: Framework,
  integration: Identity,
  body: unknown,
  { secrets, paths, maxBytes, isUnlogged }: BodyRules,
): Promise<string | null> {
  if (body === undefined || body === null) return null
  const bytes = bytesOf(body)
  if (bytes !== null && !isUnlogged)
    return `[binary, ${bytes.length} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}]`
  const { text, isRaw } = bytes === null ? textOf(body) : { text: '', isRaw: false }
  if (text === null) return NOT_SERIALISABLE
  const size = () => bytes?.length ?? Buffer.byteLength(text)
  if (isUnlogged) return `[not logged, ${size()} bytes]`
  try {
    return await redacted(text, 'redactStored', text, { secrets, paths, maxBytes, isRaw })
  } catch (error) {
    noteFailure(framework, integration, error, text)
    return `[not redacted, ${size()} bytes]`
  }
}

/**
 * What a call returned as JSON text, whole, so that a cached call gives the same; null when it can't: it is no JSON, was no
 * UTF-8, or something in it is redacted. Never throws.
 *
 * @param body what of it redaction paths are about
 */
export async function cacheableText(
  framework: Framework,
  integration: Identity,
  { returned, body }: { readonly returned: unknown; readonly body: unknown },
  { secrets, paths }: Pick<BodyRules, 'secrets' | 'paths'>,
): Promise<string | null> {
  if (bytesOf(returned) !== null || bytesOf(body) !== null) return null
  const { text: json, isRaw } = serialised(returned)
  const { text } = textOf(body)
  if (json === null || text === null) return null
  try {
    return await redacted(json, 'cacheable', text, json, { secrets, paths, isRaw })
  } catch (error) {
    noteFailure(framework, integration, error, json)
    return null
  }
}

/** Its kind only: what it says may quote the body. */
function noteFailure({ logger }: Framework, integration: Identity, error: unknown, text: string): void {
  logger.error(
    {
      event: 'request.body_not_redacted',
      integration: integration.id,
      provider: integration.provider,
      characters: text.length,
      error: errorKind(error),
    },
    'a body could not be redacted; the row says its size only',
  )
}

function bytesOf(body: unknown): Uint8Array | null {
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  return ArrayBuffer.isView(body) ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : null
}

interface Written {
  /** Null for what JSON can't hold. */
  readonly text: string | null
  /** As the provider wrote it. */
  readonly isRaw: boolean
}

function textOf(body: unknown): Written {
  return typeof body === 'string' ? { text: body, isRaw: false } : serialised(body)
}

/** JSON can't hold cycles, big integers, functions, undefined. */
function serialised(value: unknown): Written {
  const raw = typeof value === 'object' && value !== null ? rawTexts.get(value) : undefined
  if (raw !== undefined) return { text: raw, isRaw: true }
  try {
    return { text: JSON.stringify(value) ?? null, isRaw: false }
  } catch {
    return { text: null, isRaw: false }
  }
}
