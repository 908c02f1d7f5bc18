/** How a problem shows what was given: short, and never a secret. */

const SHOWN_CHARACTERS = 80

/** A value as it is, cut, without what a URL may hold of secrets: its user info and its query. */
export function shown(value: unknown): string {
  if (typeof value === 'string') {
    const text = withoutUrlSecrets(value)
    return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text)
  }
  return isPlain(value) ? String(value) : kindOf(value)
}

/** Up to the last `@`: a password that is not percent-encoded may hold any character. */
function withoutUrlSecrets(text: string): string {
  return text
    .replace(/\/\/.*@/s, '//[masked]@')
    .replace(/^[^/]*:[^/]*@/, '[masked]@')
    .replace(/(:\/\/[^?]*)\?.*/s, '$1?[masked]')
}

/** Only the kind of a value that may be a secret. */
export function masked(value: unknown): string {
  return value === null || value === undefined ? String(value) : `${kindOf(value)} (masked)`
}

/** The same of a text that should have been JSON: a shell may have taken its quotes. */
export function maskedNoJson(text: string): string {
  return `a text of ${text.length} characters that is not JSON (masked)`
}

function isPlain(value: unknown): boolean {
  return value === null || ['number', 'boolean', 'bigint', 'undefined'].includes(typeof value)
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`
  if (typeof value === 'string') return `a string of ${value.length} characters`
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
