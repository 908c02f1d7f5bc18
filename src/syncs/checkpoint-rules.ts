/**
 * How the checkpoints of a run become the next cursor.
 *
 * Rule: docs/behaviour/sync-cursor.md, "The cursor".
 */
import { withoutTrailingZeros } from '../framework/digit-rules.ts'
import type { Json } from '../framework/json.ts'
import { jsonEquals } from '../framework/json.ts'

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
 * Whether the copy of an item that was listed later replaces the one that was listed before. The provider's own reducer says
 * whose checkpoint is the greater: a list that is read backwards, or from a replica that lags, may give the older copy last.
 * Without two checkpoints, or when the reducer prefers neither, the later copy counts.
 */
export function isNewerCopy(kept: Json, later: Json, reduce: (checkpoints: readonly Json[]) => Json): boolean {
  if (kept === null || later === null || jsonEquals(kept, later)) return true
  try {
    // The later one stands first: of equals the reducer may keep the first.
    const preferred = reduce([later, kept])
    return jsonEquals(preferred, reduce([later])) || !jsonEquals(preferred, reduce([kept]))
  } catch {
    // The end of the run asks the reducer again, and says that it throws.
    return true
  }
}

/**
 * A cursor without a time after the given one: each such time in it becomes `latest`, written in the same way (zone and
 * number of decimals). What is no time stays.
 */
export function cursorNotAfter(cursor: Json, latest: Date): Json {
  if (typeof cursor === 'string') {
    const isAfter = isInstant(cursor) && orderOf(cursor) > orderOf(latest.toISOString())
    return isAfter ? writtenAs(cursor, latest) : cursor
  }
  if (cursor === null || typeof cursor !== 'object') return cursor
  if (Array.isArray(cursor)) return cursor.map((inner: Json) => cursorNotAfter(inner, latest))
  return Object.fromEntries(Object.entries(cursor).map(([key, inner]) => [key, cursorNotAfter(inner, latest)]))
}

/** The cursor with each of its times moved back by `seconds`, written in the same way. What is no time stays. */
export function cursorBefore(cursor: Json, seconds: number): Json {
  if (typeof cursor === 'string')
    return isInstant(cursor) ? writtenAs(cursor, new Date(Date.parse(cursor) - seconds * 1_000)) : cursor
  if (cursor === null || typeof cursor !== 'object') return cursor
  if (Array.isArray(cursor)) return cursor.map((inner: Json) => cursorBefore(inner, seconds))
  return Object.fromEntries(Object.entries(cursor).map(([key, inner]) => [key, cursorBefore(inner, seconds)]))
}

/** Whether a time stands in it: ISO 8601 with a zone. */
export function hasInstant(cursor: Json): boolean {
  if (typeof cursor === 'string') return isInstant(cursor)
  return cursor !== null && typeof cursor === 'object' && Object.values(cursor).some((inner: Json) => hasInstant(inner))
}

function isInstant(text: string): boolean {
  return INSTANT.test(text) && !Number.isNaN(Date.parse(text))
}

/** The moment in the form of another one, decimals that it has no room for cut off: so it is never later. */
function writtenAs(form: string, moment: Date): string {
  const [, withSeconds = '', fraction = '', zone = 'Z'] =
    /T\d{2}:\d{2}(:\d{2})?(?:\.(\d+))?(Z|[+-].*)$/.exec(form) ?? []
  const [, sign = '+', zoneHours = '0', zoneMinutes = '0'] = /^([+-])(\d{2}):?(\d{2})$/.exec(zone) ?? []
  const offsetMinutes = (sign === '-' ? -1 : 1) * (Number(zoneHours) * 60 + Number(zoneMinutes))
  const local = new Date(moment.getTime() + offsetMinutes * 60_000).toISOString()
  const [seconds = '', milliseconds = ''] = local.slice(0, -1).split('.')
  const upTo = withSeconds === '' ? seconds.slice(0, 'YYYY-MM-DDTHH:MM'.length) : seconds
  const decimals = fraction === '' ? '' : `.${milliseconds.slice(0, fraction.length).padEnd(fraction.length, '0')}`
  return `${upTo}${decimals}${zone}`
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
  if (!isInstant(checkpoint)) return checkpoint
  const at = new Date(checkpoint)
  // Dates hold milliseconds only, so the fraction is taken from the text.
  const fraction = withoutTrailingZeros(/\.(\d+)/.exec(checkpoint)?.[1] ?? '')
  // The end that no stored text has tells it from the same time without a zone.
  return `${at.toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length)}${fraction === '' ? '' : `.${fraction}`}\u0000`
}
