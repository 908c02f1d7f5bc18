/** Whether one JSON value holds another, as Postgres' `jsonb @>` says. Rule: docs/behaviour/explain.md, "Payloads". */

/**
 * An object holds one whose keys it has, each with a value that holds the other's. A list holds one whose every element is held by
 * some element of it. Numbers are compared as JavaScript has them.
 */
export function holds(whole: unknown, part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return whole === part
  if (typeof whole !== 'object' || whole === null) return false
  if (Array.isArray(part)) return Array.isArray(whole) && part.every((one) => whole.some((each) => holds(each, one)))
  if (Array.isArray(whole)) return false
  return Object.entries(part).every(
    ([key, value]) => Object.hasOwn(whole, key) && holds(Reflect.get(whole, key), value),
  )
}

/** The same at any depth: what people look for rarely lies at the top. */
export function holdsWithin(whole: unknown, part: unknown): boolean {
  if (holds(whole, part)) return true
  if (typeof whole !== 'object' || whole === null) return false
  return Object.values(whole).some((inner) => holdsWithin(inner, part))
}
