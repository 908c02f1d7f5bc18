/** Plain objects that come through JSON unchanged. */
import type { Json } from './json.ts'
import { isJson } from './json.ts'

export type JsonObject = { readonly [key: string]: Json }

export type JsonObjectCheck =
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

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value !== 'object') return `a ${typeof value}`
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  return `a ${typeof name === 'string' && name !== '' ? name : 'class instance'}`
}
