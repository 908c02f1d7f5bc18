/** A body as its row holds it. Rule: docs/behaviour/requests.md, "The row", "Redaction" and "Response cache". */
import { createHash } from 'node:crypto'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type { RedactionPath } from '../framework/redaction.ts'
import { parseRedactionPath } from '../framework/redaction.ts'
import { LARGE_LENGTH, redacted } from '../framework/redaction-thread.ts'
import { errorKind } from '../framework/thrown.ts'
import { limitsRequestLogging, redactsRequestData } from '../providers/contracts.ts'
import type { PlannedCall } from './call.ts'

export interface BodyRules {
  readonly paths: readonly RedactionPath[]
  /** The row says the body's size only. */
  readonly isUnlogged: boolean
}

/** Asked for each attempt: a provider may go by its own configuration. */
export function bodyRules(call: PlannedCall): { readonly request: BodyRules; readonly response: BodyRules } {
  const { provider, method, endpoint } = call
  const redacts = redactsRequestData(provider) ? provider : null
  const limits = limitsRequestLogging(provider) ? provider : null
  const request = listed(call, 'redactedRequestPaths', () => redacts?.redactedRequestPaths?.())
  const response = listed(call, 'redactedResponsePaths', () => redacts?.redactedResponsePaths?.())
  // The cache serves it again, and a repeat of the key shows it: these are needed whole.
  const isNeeded = call.cacheForMs !== null || call.idempotencyKey !== null
  const unlogged = isNeeded ? [] : listed(call, 'unloggedResponses', () => limits?.unloggedResponses())
  return {
    request: rulesOf(request, false),
    response: rulesOf(response, unlogged === null || unlogged.some((pattern) => isUnlogged(pattern, method, endpoint))),
  }
}

/** Null: the provider gives no list, and it might have named what must not be stored. Then the body is not stored. */
function listed(
  { framework, integration, secrets }: PlannedCall,
  name: string,
  ask: () => unknown,
): readonly string[] | null {
  const warn = (fields: Record<string, unknown>, message: string): void =>
    integrationLogger(framework, integration).warn(
      { event: 'request.body_rule_failed', ...fields },
      `${name}() ${message}; the body is not stored`,
    )
  try {
    const list = ask() ?? []
    if (Array.isArray(list) && list.every((entry) => typeof entry === 'string')) return list
    warn({}, 'gave no list of texts')
  } catch (error) {
    warn({ error: redactedErrorLine(error, secrets(), 500) }, 'threw')
  }
  return null
}

function rulesOf(paths: readonly string[] | null, isUnlogged: boolean): BodyRules {
  return { paths: (paths ?? []).map(parseRedactionPath), isUnlogged: isUnlogged || paths === null }
}

/**
 * @param pattern `[METHOD:]path`; `*` stands for any characters within one segment. A query of the endpoint is not looked at,
 * nor is a slash at either end
 */
export function isUnlogged(pattern: string, method: string, endpoint: string): boolean {
  const [, wantedMethod, path = ''] = /^(?:([A-Za-z]+):(?!\/\/))?(.*)$/s.exec(pattern) ?? []
  if (wantedMethod !== undefined && wantedMethod.toUpperCase() !== method.toUpperCase()) return false
  const pieces = trimmed(path).split('*')
  return new RegExp(`^${pieces.map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^/]*')}$`).test(
    trimmed(endpoint.split('?')[0] ?? ''),
  )
}

function trimmed(path: string): string {
  return path.replace(/^\/+|\/+$/g, '')
}

const NOT_SERIALISABLE = '[not serialisable]'

/** The JSON text of each large decoded body: to write it again would hold up everything else. */
const rawTexts = new WeakMap<object, string>()

/** @param text the decoded body was read from it */
export function keepLargeText(decoded: unknown, text: string): void {
  if (typeof decoded === 'object' && decoded !== null && text.length > LARGE_LENGTH) rawTexts.set(decoded, text)
}

/**
 * Redacted first, then cut; a note where the body can't or must not be held. Never throws: the call was made, and has its row.
 *
 * @param maxBytes null: whole
 */
export async function storedBody(
  call: PlannedCall,
  body: unknown,
  { paths, isUnlogged }: BodyRules,
  maxBytes: number | null,
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
    return await redacted(text, 'redactStored', text, { secrets: call.secrets(), paths, maxBytes, isRaw })
  } catch (error) {
    noteFailure(call, error, text)
    return `[not redacted, ${size()} bytes]`
  }
}

/**
 * The value that a call returned as JSON text, whole, so that a cached call gives the same. Null where that can't be: it is no JSON,
 * was no UTF-8, or something in it is redacted. Never throws.
 *
 * @param body the part of it that redaction paths are about
 */
export async function cacheableText(
  call: PlannedCall,
  { returned, body }: { readonly returned: unknown; readonly body: unknown },
  paths: readonly RedactionPath[],
): Promise<string | null> {
  if (bytesOf(returned) !== null || bytesOf(body) !== null) return null
  const { text: json, isRaw } = serialised(returned)
  const { text } = textOf(body)
  if (json === null || text === null) return null
  try {
    return await redacted(json, 'cacheable', text, json, { secrets: call.secrets(), paths, isRaw })
  } catch (error) {
    noteFailure(call, error, json)
    return null
  }
}

/** The error's kind only: its text may quote the body. */
function noteFailure({ framework, integration }: PlannedCall, error: unknown, text: string): void {
  integrationLogger(framework, integration).error(
    { event: 'request.body_not_redacted', characters: text.length, error: errorKind(error) },
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
