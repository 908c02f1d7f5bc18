import { withoutTrailingZeros } from './digit-rules.ts'

/** What JSON can hold, and what may be asked about it. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/**
 * Whether `value` survives JSON unchanged: no undefined, function, NaN, Date, class instance or cycle anywhere in it, and at
 * most 500 levels.
 */
export function isJson(value: unknown): value is Json {
  return survivesJson(value, [])
}

/** Whether a text parses. */
export function isJsonText(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Whether it is an object with names and values. A host, like a provider, can give anything. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Deeper nesting is an attack or a mistake: our code walks values recursively. */
export const MAX_DEPTH = 500

/** Whether Postgres keeps it unchanged: `jsonb` takes neither U+0000 nor half of a surrogate pair. */
export function isStorableJson(value: Json): boolean {
  // JSON.stringify() writes both as escapes, in lower case. A doubled backslash is matched first: the text `\\u0000` of six
  // characters is not one of them.
  return !JSON.stringify(value)
    .replaceAll('\\\\', '')
    .match(/\\(u0000|ud[89a-f])/)
}

function survivesJson(value: unknown, around: readonly object[]): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return Number.isFinite(value)
    case 'object': {
      if (value === null) return true
      if (around.length >= MAX_DEPTH || around.includes(value)) return false
      const within = [...around, value]
      // Array.from: every() would pass over the holes, which JSON writes as null.
      if (Array.isArray(value)) return Array.from(value).every((inner) => survivesJson(inner, within))
      const prototype: unknown = Object.getPrototypeOf(value)
      if (prototype !== Object.prototype && prototype !== null) return false
      return Object.values(value).every((inner) => survivesJson(inner, within))
    }
    default:
      return false
  }
}

/** Text that is the same for equal values whatever the order of their keys; lists keep theirs. */
export function canonicalJson(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (isList(value)) return `[${value.map(canonicalJson).join(',')}]`
  const fields = Object.keys(value).sort()
  return `{${fields.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] as Json)}`).join(',')}}`
}

/** Deep equality; the order of keys does not count. */
export function jsonEquals(a: Json, b: Json): boolean {
  return canonicalJson(a) === canonicalJson(b)
}

function isList(value: readonly Json[] | { readonly [key: string]: Json }): value is readonly Json[] {
  return Array.isArray(value)
}

/** The value without U+0000 in its texts: Postgres can store it neither in text nor in jsonb. */
export function withoutNul(value: Json): Json {
  if (typeof value === 'string') return value.replaceAll('\u0000', '')
  if (value === null || typeof value !== 'object') return value
  if (isList(value)) return value.map(withoutNul)
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key.replaceAll('\u0000', ''), withoutNul(inner)]),
  )
}

export type JsonObject = { readonly [key: string]: Json }

type JsonObjectCheck =
  | { readonly ok: true; readonly value: JsonObject }
  /** Names keys and kinds, never values. */
  | { readonly ok: false; readonly reason: string }

/** The object without keys that are undefined: JSON does not write them. Anything else that JSON can't hold is refused. */
export function asJsonObject(value: unknown): JsonObjectCheck {
  if (!isPlainObject(value)) return { ok: false, reason: `a plain object is allowed, ${kindOf(value)} was given` }
  const defined = Object.entries(value).filter(([, inner]) => inner !== undefined)
  const wrong = defined.find(([, inner]) => !isJson(inner))
  if (wrong !== undefined)
    return {
      ok: false,
      reason: `texts, finite numbers, booleans, null, and lists and plain objects of them are allowed in it; "${wrong[0]}" is or holds something else`,
    }
  return { ok: true, value: Object.fromEntries(defined) as JsonObject }
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** What in it is not JSON, for a message: its kind, and the key of an object that holds it. */
export function kindNotJson(value: unknown): string {
  const wrong = isPlainObject(value) ? Object.entries(value).find(([, inner]) => !isJson(inner)) : undefined
  return wrong === undefined ? kindOf(value) : `${kindOf(wrong[1])} at "${wrong[0]}"`
}

function kindOf(value: unknown): string {
  if (value == null || Number.isNaN(value)) return String(value)
  if (Array.isArray(value)) return 'a list'
  if (typeof value !== 'object') return `a ${typeof value}`
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  return `a ${typeof name === 'string' && name !== '' ? name : 'class instance'}`
}

/** A quote, an escape, a bracket, and the words between them (RFC 8259). No group repeats: a long text would exhaust the stack. */
const TOKEN = /"|\\.|[{}[\]]|[^\s,:{}[\]"\\]+/gs

/**
 * Why a JSON text does not come back as it was written, once it was parsed; null: it does.
 *
 * @param text must be valid JSON
 */
export function lossInParsing(text: string): 'it is nested too deep' | 'a number in it is not held exactly' | null {
  let depth = 0
  let isTooDeep = false
  let isInexact = false
  let isInString = false
  for (const [token] of text.matchAll(TOKEN)) {
    if (isInString) isInString = token !== '"'
    else if (token === '}' || token === ']') depth -= 1
    else {
      isTooDeep ||= depth > MAX_DEPTH
      isInString = token === '"'
      if (token === '{' || token === '[') depth += 1
      isInexact ||= /^[-\d]/.test(token) && !isHeldExactly(token)
    }
  }
  return isTooDeep ? 'it is nested too deep' : isInexact ? 'a number in it is not held exactly' : null
}

/** JSON's numbers have any number of digits, JavaScript's some 16. */
function isHeldExactly(number: string): boolean {
  const value = Number(number)
  return Number.isFinite(value) && decimalOf(number) === decimalOf(String(value))
}

/** Digits and power of ten, the same for each way in which a number can be written. */
function decimalOf(number: string): string {
  const [, whole = '', fraction = '', power = '0'] = /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(number) ?? []
  const written = `${whole}${fraction}`.replace(/^0+/, '')
  const digits = withoutTrailingZeros(written)
  return digits === '' ? '0' : `${digits}e${Number(power) - fraction.length + written.length - digits.length}`
}
