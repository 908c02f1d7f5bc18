/** What a person is told of a former webhook secret. Rule: docs/behaviour/webhook-signatures.md, "Rotation". */

/** @param at null: no match is noted */
export function matchText(at: Date | null, isWatched: boolean): string {
  if (!isWatched) return 'whether it still matches is not known: its provider checks signatures itself'
  return at === null ? 'no delivery has matched it' : `last matched at ${at.toISOString()}`
}
