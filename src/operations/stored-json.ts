/** JSON columns of the logs: without secrets, and not too large. Rule: docs/behaviour/operations.md, "What is stored". */
import type { Json } from '../core/json.ts'
import { REDACTED, redactBody, redactText } from '../core/redaction.ts'

/** What is larger is data, not a note. */
const MAX_BYTES = 65_536

/** The value without secrets; a marker of its size in place of one that is too large. */
export function storedJson(value: Json, secrets: readonly string[]): Json {
  const text = JSON.stringify(value)
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_BYTES) return { note: `${bytes} bytes not stored` }
  return withoutSecrets(JSON.parse(redactBody(text, [])) as Json, secrets)
}

/** Value by value: a secret may be a number's digits, and its place in the text must stay JSON. */
function withoutSecrets(value: Json, secrets: readonly string[]): Json {
  if (typeof value === 'string') return redactText(value, secrets)
  if (typeof value === 'number') return redactText(String(value), secrets) === String(value) ? value : REDACTED
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((inner: Json) => withoutSecrets(inner, secrets))
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [redactText(key, secrets), withoutSecrets(inner, secrets)]),
  )
}
