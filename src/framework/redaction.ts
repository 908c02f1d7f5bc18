/** What never reaches a row, a log line or an error message. Rule: docs/behaviour/requests.md, "Redaction". */

import type { RedactionPath } from './redactor.ts'
import { createRedactor } from './redactor.ts'

export const REDACTED = '[REDACTED]'

/** Shorter values are too common as ordinary words to be replaced in a text. */
export const MIN_SECRET_LENGTH = 8

export type { RedactionPath }

export const REDACTOR = createRedactor()
export const { redactText, redactBody, cutToBytes, storable } = REDACTOR

/**
 * Every string of at least 8 characters in the credentials, at any depth, in the ways in which it turns up again; longest first.
 * Escapes and percent-encoding are read where the text is searched, so each needs one spelling here, if any.
 */
export function secretsOf(credentials: unknown): string[] {
  const found = new Set<string>()
  // A refused patch is redacted, too, and may contain itself.
  const seen = new Set<object>()
  const visit = (value: unknown): void => {
    if (typeof value === 'string') {
      if (value.length >= MIN_SECRET_LENGTH) for (const written of writtenAs(value)) spell(written, found)
    } else if (typeof value === 'object' && value !== null && !seen.has(value)) {
      seen.add(value)
      for (const inner of Object.values(value)) visit(inner)
    }
  }
  visit(credentials)
  return [...found].sort((a, b) => b.length - a.length)
}

/** A key in PEM is read without the space around it, and with line breaks of either kind (RFC 7468, section 2). */
function writtenAs(value: string): Set<string> {
  const written = new Set([value])
  const trimmed = value.trim()
  if (trimmed.length < MIN_SECRET_LENGTH) return written
  written.add(trimmed)
  if (!/[\r\n]/.test(value)) return written
  for (const text of [value, trimmed])
    for (const lineBreak of ['\n', '\r\n']) written.add(text.replace(/\r\n?|\n/g, lineBreak))
  return written
}

function spell(secret: string, found: Set<string>): void {
  const bytes = Buffer.from(secret)
  // As in a form: other characters are escaped, and a space is a plus.
  const form = new URLSearchParams([['', secret]]).toString().slice(1)
  // As it stands inside a JSON text: a private key's line breaks are escaped there, and by some writers every slash.
  const escaped = JSON.stringify(secret).slice(1, -1)
  found.add(secret)
  found.add(secret.replaceAll(' ', '+'))
  // A character a byte: what percent-encoding says.
  found.add(bytes.toString('latin1'))
  // encodeURIComponent throws on half a surrogate pair; UTF-8 has replaced it.
  found.add(encodeURIComponent(bytes.toString()))
  found.add(form)
  found.add(escaped)
  found.add(escaped.replaceAll('/', '\\/'))
  found.add(bytes.toString('base64'))
  found.add(bytes.toString('base64url'))
  for (const text of insideBase64(bytes)) found.add(text)
  // Basic authentication with a client's secret: RFC 6749, section 2.3.1.
  if (form !== secret) for (const text of insideBase64(Buffer.from(form))) found.add(text)
}

/**
 * What base64 of a longer text says for these bytes alone, such as `Basic base64(user:secret)`: four of its characters stand for
 * three bytes, so that there are three ways, by how many bytes stand before. Its first and last character may hold some bits of
 * what is beside the bytes; those are left out.
 */
function insideBase64(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    const text = whole.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
    return [text, text.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

/** What of an error's text is read: it may quote a whole answer. */
const MAX_READ = 65_536
/** Characters that may spell one: `\u0041`. */
const LONGEST_ESCAPE = 6

/** The beginning of the redacted text: redacted before it is cut, since half a secret at the cut would not be known again. */
export function redactStart(text: string, secrets: readonly string[], maxLength: number): string {
  if (text.length <= MAX_READ) return redactText(text, secrets).slice(0, maxLength)
  const redacted = redactText(text.slice(0, MAX_READ), secrets)
  // The end of what was read may be the first half of one.
  const unsure = Math.max(0, ...secrets.map(({ length }) => length)) * LONGEST_ESCAPE
  return redacted.slice(0, Math.min(maxLength, Math.max(0, redacted.length - unsure)))
}

/**
 * Redacts a text whose credentials are not known, by what stands before them: passwords in addresses, query strings,
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

/** `a.*.b\\.c` is `a`, any key or element, `b.c`. */
export function parseRedactionPath(path: string): RedactionPath {
  return path.split(/(?<!\\)\./).map((segment) => segment.replaceAll('\\.', '.'))
}
