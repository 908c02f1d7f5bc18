/**
 * The time that a reconciliation asks a provider about.
 *
 * Rule: docs/behaviour/webhook-reconciliation.md, "The window".
 */

/** A delivery younger than this may still come by itself. */
const SETTLING_SECONDS = 300
/** How far a run reaches back before the end of the last one: what a provider lists late is seen again. */
const OVERLAP_SECONDS = 600

/** What is older has arrived, or never will by itself. */
export function settledBefore(now: Date): Date {
  return new Date(now.getTime() - SETTLING_SECONDS * 1_000)
}

export interface ReconciliationWindow {
  /** Inclusive. */
  readonly since: Date
  /** Exclusive; not after `since`: there is nothing to ask about. */
  readonly until: Date
  /** Whether a whole run of it leaves no gap behind, so that the next one may go on from its end. */
  readonly isGapless: boolean
}

/**
 * From the end of the last run, 10 minutes before it, or from as far back as the provider's API knows, whichever is later;
 * until 5 minutes ago. An end that is still to come is of a worker whose clock was fast: what came since that run is not known, so it
 * counts as none.
 *
 * @param lookbackSeconds beyond which the provider's API knows nothing
 * @param lastUntil the end of the last gapless run that succeeded; null: none
 * @param wanted a beginning of the caller's own, in place of the last run's end
 */
export function reconciliationWindow({
  now,
  lookbackSeconds,
  lastUntil,
  wanted = null,
}: {
  now: Date
  lookbackSeconds: number
  lastUntil: Date | null
  wanted?: Date | null
}): ReconciliationWindow {
  const ago = (seconds: number): number => Math.max(0, now.getTime() - seconds * 1_000)
  const oldest = ago(lookbackSeconds)
  const isKnown = lastUntil !== null && lastUntil <= now
  const usual = isKnown ? Math.max(oldest, lastUntil.getTime() - OVERLAP_SECONDS * 1_000) : oldest
  const since = wanted === null ? usual : Math.max(oldest, wanted.getTime())
  return { since: new Date(since), until: settledBefore(now), isGapless: since <= usual }
}
