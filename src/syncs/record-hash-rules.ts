/**
 * What tells whether a record has changed.
 *
 * Rule: docs/behaviour/sync-changes.md, "What is compared".
 */
import { hash } from 'node:crypto'
import type { Json } from '../framework/json.ts'
import { parseRedactionPath } from '../framework/redaction.ts'
import type { SkipUnchanged } from '../providers/contracts.ts'

/**
 * SHA-256 of the payload in hex: the order of keys does not count, nor do the fields that are left out.
 *
 * @param stored payload as JSON text, with the version of its event class: a new version is another payload
 */
export function recordHash(stored: string, skip: SkipUnchanged): string {
  const value = JSON.parse(stored) as Json
  const paths = skip === true ? [] : skip.except.map((path) => ['data', ...parseRedactionPath(path)])
  return hash('sha256', JSON.stringify(sorted(paths.reduce(without, value))), 'hex')
}

/** The value with the keys of its objects in one order. Faster than `canonicalJson()`: most of it is native. */
function sorted(value: Json): Json {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(sorted)
  const object = value as Readonly<Record<string, Json>>
  const keys = Object.keys(object).sort()
  // Without a prototype `__proto__` is a key like any other, but all keys take longer.
  const inOrder: Record<string, Json> = keys.includes('__proto__') ? Object.create(null) : {}
  for (const key of keys) inOrder[key] = sorted(object[key] as Json)
  return inOrder
}

/** @param path keys from the outside in; `*` is any key or element */
function without(value: Json, path: readonly string[]): Json {
  const [key, ...rest] = path
  if (value === null || typeof value !== 'object' || key === undefined) return value
  const isMeant = (name: string): boolean => key === '*' || name === key
  // What is left out of a list leaves its place: the others keep theirs.
  if (Array.isArray(value))
    return value.map((inner: Json, at) =>
      !isMeant(String(at)) ? inner : rest.length === 0 ? null : without(inner, rest),
    )
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) =>
      !isMeant(name) ? [[name, inner]] : rest.length === 0 ? [] : [[name, without(inner, rest)]],
    ),
  )
}
