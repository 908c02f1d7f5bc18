/**
 * How the checkpoints of a run become the next cursor.
 *
 * Rule: docs/behaviour/syncs.md, "The cursor".
 */
import type { Json } from './json.ts'
import { jsonEquals } from './json.ts'

/** ISO 8601 with a zone; date-only and zoneless texts are no instants. */
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})$/

export type CursorStep = { readonly kind: 'keep' } | { readonly kind: 'advance'; readonly to: Json }

/**
 * The cursor after a clean run. It only moves forward: a candidate is taken when there is no cursor yet, or when it
 * differs and the provider's own reducer prefers it to the present one.
 *
 * @param checkpoints of the run's finished items in dispatch order; nulls are passed over
 */
export function nextCursor(
  current: Json,
  checkpoints: readonly Json[],
  reduce: (checkpoints: readonly Json[]) => Json,
): CursorStep {
  const present = checkpoints.filter((checkpoint) => checkpoint !== null)
  if (present.length === 0) return { kind: 'keep' }
  const candidate = reduce(present)
  if (candidate === null) return { kind: 'keep' }
  if (current === null) return { kind: 'advance', to: candidate }
  if (jsonEquals(candidate, current)) return { kind: 'keep' }
  return jsonEquals(reduce([current, candidate]), candidate) ? { kind: 'advance', to: candidate } : { kind: 'keep' }
}

/**
 * The greatest checkpoint: by instant when both are ISO 8601 times with a zone (`Z` and `+00:00` are equal, fractions
 * count), else by code unit. Of equal instants the first stays. Null for none.
 */
export function reduceCheckpointsByMax(checkpoints: readonly Json[]): Json {
  let max: string | null = null
  for (const checkpoint of checkpoints) {
    if (checkpoint === null) continue
    const text = String(checkpoint)
    if (max === null || isGreater(text, max)) max = text
  }
  return max
}

function isGreater(a: string, b: string): boolean {
  const instants = INSTANT.test(a) && INSTANT.test(b)
  if (!instants) return a > b
  const difference = Date.parse(a) - Date.parse(b)
  // Dates hold milliseconds only; finer fractions of the same millisecond are compared as digits.
  return difference !== 0 ? difference > 0 : fraction(a) > fraction(b)
}

function fraction(instant: string): string {
  return (/\.(\d+)/.exec(instant)?.[1] ?? '').replace(/0+$/, '')
}
