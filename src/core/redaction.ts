/**
 * What never reaches a row, a log line or an error message.
 *
 * Rule: docs/behaviour/requests.md, "Redaction".
 */

export const REDACTED = '[REDACTED]'

/** Shorter values are too common as ordinary words to be replaced in a text. */
const MIN_SECRET_LENGTH = 8

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
      // As it stands inside a JSON text: a private key's line breaks are escaped there.
      found.add(JSON.stringify(value).slice(1, -1))
    } else if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) visit(inner)
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
 * A JSON text or a form without secrets: values under secret keys, and every credential wherever it occurs. A text without
 * either comes back byte for byte; one that is neither only loses the credentials.
 */
export function redactBody(body: string, secrets: readonly string[]): string {
  const withoutKeys = redactSecretKeys(body)
  return redactText(withoutKeys, secrets)
}

/** OAuth's token endpoint is asked, and by some providers answered, with a form (RFC 6749, section 4.1.3). */
const SECRET_FORM_FIELD = new RegExp(`(?<=^|&)(${[...SECRET_KEYS].join('|')})=[^&]*`, 'g')

function redactSecretKeys(body: string): string {
  // A key may be written with escapes.
  if (!body.includes('\\u') && ![...SECRET_KEYS].some((key) => body.includes(key))) return body
  let changed = false
  const visit = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(visit)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => {
        if (!SECRET_KEYS.has(key)) return [key, visit(inner)]
        changed = true
        return [key, REDACTED]
      }),
    )
  }
  try {
    const redacted = visit(JSON.parse(body))
    return changed ? JSON.stringify(redacted) : body
  } catch {
    return body.replace(SECRET_FORM_FIELD, `$1=${REDACTED}`)
  }
}

/**
 * The text cut to `maxBytes` of UTF-8 on a character boundary, the note about the cut included.
 *
 * @param maxBytes at least 64; null leaves the text whole
 */
export function cutToBytes(text: string, maxBytes: number | null): string {
  const bytes = Buffer.byteLength(text)
  if (maxBytes === null || bytes <= maxBytes) return text
  const note = ` ...[cut, ${bytes} bytes]`
  let head = Buffer.from(text).subarray(0, maxBytes - Buffer.byteLength(note))
  // A continuation byte at the cut means that a character was split: step back to its first byte.
  let end = head.length
  while (end > 0 && (Buffer.from(text)[end] ?? 0) >> 6 === 0b10) end -= 1
  head = head.subarray(0, end)
  return head.toString('utf8') + note
}
