/**
 * How the checkpoints of a run become the next cursor.
 *
 * Rule: docs/behaviour/sync-cursor.md, "The cursor".
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
 * count), else by code unit, an instant standing as its UTC text. Of equal instants the first stays. Null for none.
 */
export function reduceCheckpointsByMax(checkpoints: readonly Json[]): Json {
  let max: string | null = null
  for (const checkpoint of checkpoints) {
    if (checkpoint === null) continue
    const text = String(checkpoint)
    if (max === null || orderOf(text) > orderOf(max)) max = text
  }
  return max
}

/**
 * A text that sorts as the checkpoint does. One order for all, or the greatest of three would depend on which two meet
 * first: an instant as it is written can lie after a plain text that is after a later instant.
 */
function orderOf(checkpoint: string): string {
  const at = INSTANT.test(checkpoint) ? new Date(checkpoint) : null
  if (at === null || Number.isNaN(at.getTime())) return checkpoint
  // Dates hold milliseconds only, so the fraction is taken from the text.
  const fraction = (/\.(\d+)/.exec(checkpoint)?.[1] ?? '').replace(/0+$/, '')
  // The end that no stored text has tells it from the same time without a zone.
  return `${at.toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length)}${fraction === '' ? '' : `.${fraction}`}\u0000`
}
