/**
 * What never reaches a row, a log line or an error message.
 *
 * Rule: docs/behaviour/requests.md, "Redaction".
 */

import { scanJson } from './json-scan.ts'

export const REDACTED = '[REDACTED]'

/** Shorter values are too common as ordinary words to be replaced in a text. */
export const MIN_SECRET_LENGTH = 8

/** OAuth and OpenID Connect parameters that are secrets wherever they stand (RFC 6749, RFC 7636, RFC 7521). */
const SECRET_KEYS: ReadonlySet<string> = new Set([
  'access_token',
  'refresh_token',
  'id_token',
  'client_secret',
  'code_verifier',
  'client_assertion',
])

/** Every string of at least 8 characters in the credentials, at any depth; longest first, so that no part stays. */
export function secretsOf(credentials: unknown): string[] {
  const found = new Set<string>()
  // A refused patch is redacted, too, and may contain itself.
  const seen = new Set<object>()
  const visit = (value: unknown): void => {
    if (typeof value === 'string' && value.length >= MIN_SECRET_LENGTH) {
      found.add(value)
      const bytes = Buffer.from(value)
      // encodeURIComponent throws on half a surrogate pair; UTF-8 has replaced it.
      found.add(encodeURIComponent(bytes.toString()))
      // As in a form: other characters are escaped, and a space is a plus.
      found.add(new URLSearchParams([['', value]]).toString().slice(1))
      found.add(bytes.toString('base64'))
      found.add(bytes.toString('base64url'))
      // As it stands inside a JSON text: a private key's line breaks are escaped there, and by some writers every slash.
      const escaped = JSON.stringify(value).slice(1, -1)
      found.add(escaped)
      found.add(escaped.replaceAll('/', '\\/'))
    } else if (typeof value === 'object' && value !== null && !seen.has(value)) {
      seen.add(value)
      for (const inner of Object.values(value)) visit(inner)
    }
  }
  visit(credentials)
  return [...found].sort((a, b) => b.length - a.length)
}

export function redactText(text: string, secrets: readonly string[]): string {
  let redacted = text
  for (const secret of secrets) redacted = redacted.replaceAll(secret, REDACTED)
  return redacted
}

/**
 * A text of whose credentials nobody knows: what looks like one by what stands before it. Passwords in addresses, query strings,
 * the `Authorization` header's values, and what is named as a secret.
 */
export function redactLikely(text: string): string {
  return text
    .replace(/:\/\/[^/\s:@]*:[^/\s@]+@/g, `://${REDACTED}@`)
    .replace(/(\b(?:https?|wss?):\/\/[^\s?#"']+)\?[^\s"')]*/gi, `$1?${REDACTED}`)
    .replace(/\b(Bearer|Basic)\s+[\w~+/.=-]{8,}/gi, `$1 ${REDACTED}`)
    .replace(LIKELY_NAMED, `$1${REDACTED}`)
}

/** `access_token=…`, `"client_secret": "…"`, `x-api-key: …`; the name may be the end of a longer one. */
const LIKELY_NAMED =
  /((?:token|secret|password|passwd|api[_-]?key|private[_-]?key|code_verifier|client_assertion|signature)\\?["']?\s*[:=]\s*\\?["']?)(?!\[REDACTED\])[^\s"'&,;)}\\]{8,}/gi

/** What a JSON body loses besides credentials: segments of a dot path, `*` for any one key or element. */
export type RedactionPath = readonly string[]

/** `a.*.b\\.c` is `a`, any key or element, `b.c`. */
export function parseRedactionPath(path: string): RedactionPath {
  return path.split(/(?<!\\)\./).map((segment) => segment.replaceAll('\\.', '.'))
}

/**
 * A JSON text or a form without secrets: values at the paths and under secret keys, and every credential wherever it occurs.
 * A JSON text stays one. All other bytes stay as they are.
 *
 * @param paths only a JSON text has such
 */
export function redactBody(body: string, secrets: readonly string[], paths: readonly RedactionPath[] = []): string {
  // Other escapes are spelled in one way only, which the secrets hold (RFC 8259, section 7).
  const isEscaped = /\\[u/]/.test(body)
  const mayHoldKey = isEscaped || [...SECRET_KEYS].some((key) => body.includes(key))
  const mayHoldSecret = secrets.length > 0 && (isEscaped || secrets.some((secret) => body.includes(secret)))
  if (paths.length === 0 && !mayHoldKey && !mayHoldSecret) return body
  const withoutValues = isJson(body)
    ? replaceSpans(body, spansToRedact(body, secrets, paths))
    : body.replace(SECRET_FORM_FIELD, `$1=${REDACTED}`)
  return redactText(withoutValues, secrets)
}

/** OAuth's token endpoint is asked, and by some providers answered, with a form (RFC 6749, section 4.1.3). */
const SECRET_FORM_FIELD = new RegExp(`(?<=^|&)(${[...SECRET_KEYS].join('|')})=[^&]*`, 'g')

interface Span {
  readonly start: number
  readonly end: number
  readonly by: string
}

function spansToRedact(json: string, secrets: readonly string[], paths: readonly RedactionPath[]): Span[] {
  const spans: Span[] = []
  scanJson<readonly RedactionPath[]>(json, paths, {
    step(around, key, inList) {
      if (!inList && SECRET_KEYS.has(key)) return null
      const here = around.filter(([wanted]) => wanted === '*' || wanted === key).map(([, ...rest]) => rest)
      return here.some((rest) => rest.length === 0) ? null : here
    },
    taken: (start, end) => void spans.push({ start, end, by: `"${REDACTED}"` }),
    scalar(start, end) {
      const token = json.slice(start, end)
      if (!token.startsWith('"')) {
        // Half a number and the mark would be no JSON.
        if (secrets.some((secret) => token.includes(secret))) spans.push({ start, end, by: `"${REDACTED}"` })
      } else if (token.includes('\\')) spans.push(...secretsInString(token, start, secrets))
    },
  })
  return spans
}

/** Where secrets stand in a string that spells some of its characters as escapes (RFC 8259, section 7). */
function secretsInString(token: string, start: number, secrets: readonly string[]): Span[] {
  const decoded = JSON.parse(token) as string
  const found = secrets.filter((secret) => decoded.includes(secret))
  if (found.length === 0) return []
  // Where each character of the decoded string begins, and where the last one ends.
  const offsets = [...token.slice(1, -1).matchAll(/\\u[0-9a-fA-F]{4}|\\.|[^\\]/gs)].map(
    ({ index }) => start + 1 + index,
  )
  offsets.push(start + token.length - 1)
  const spans: Span[] = []
  for (const secret of found)
    for (let at = decoded.indexOf(secret); at !== -1; at = decoded.indexOf(secret, at + secret.length)) {
      const span = { start: offsets[at] as number, end: offsets[at + secret.length] as number, by: REDACTED }
      if (!spans.some((other) => span.start < other.end && other.start < span.end)) spans.push(span)
    }
  return spans
}

function replaceSpans(text: string, spans: readonly Span[]): string {
  const pieces: string[] = []
  let at = 0
  for (const { start, end, by } of [...spans].sort((a, b) => a.start - b.start)) {
    pieces.push(text.slice(at, start), by)
    at = end
  }
  return pieces.length === 0 ? text : [...pieces, text.slice(at)].join('')
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/**
 * The text cut to `maxBytes` of UTF-8 on a character boundary, the note about the cut included.
 *
 * @param maxBytes at least 64; null leaves the text whole
 */
export function cutToBytes(text: string, maxBytes: number | null): string {
  // A UTF-16 unit is at most 3 bytes of UTF-8.
  if (maxBytes === null || text.length * 3 <= maxBytes) return text
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return text
  const note = ` ...[cut, ${bytes.length} bytes]`
  // A continuation byte at the cut means that a character was split: step back to its first byte.
  let end = maxBytes - note.length
  while (end > 0 && (bytes[end] ?? 0) >> 6 === 0b10) end -= 1
  return bytes.toString('utf8', 0, end) + note
}
