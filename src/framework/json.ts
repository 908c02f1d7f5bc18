/** What JSON can hold, and what may be asked about it. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/**
 * Whether `value` survives JSON unchanged: no undefined, function, NaN, Date, class instance or cycle anywhere in it, and at
 * most 500 levels.
 */
export function isJson(value: unknown): value is Json {
  return survivesJson(value, [])
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
