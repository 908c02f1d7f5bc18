/**
 * The claim in a row: `<workflow run id>:<batch>`, and `:<losses>` once a worker died with the row.
 *
 * The workflow makes the claim and passes it to the activity, so that a second try of the same activity carries the same
 * one and takes up its own rows first. A pump's claim is another matter: its rows are set apart. Rules:
 * docs/behaviour/sync-items.md, "Batches"; docs/behaviour/webhooks.md, "Claims".
 */

/** The claim of a batch; `part` tells batches of one run apart. */
export function claimOf(runId: string, part: string | number): string {
  return `${runId}:${part}`
}

/**
 * The claim of a pump. Each try has its own, and leaves the rows of an earlier try alone while that one lives. Queries find pumps' claims
 * by their beginning.
 */
export function pumpClaimOf(runId: string, pump: number): string {
  return `pump:${runId}:${pump}`
}

/** How often a row of `claim` has lost its worker. The claim itself has nothing after it, which is 0 as a number. */
export function lossesOf(rowClaim: string, claim: string): number {
  return Number(rowClaim.slice(claim.length + 1))
}

/** The claim of a row that lost its worker once more. */
export function afterLoss(claim: string, losses: number): string {
  return `${claim}:${losses}`
}

/** A row loses its worker this often before it is given up as `failed`. */
export const MAX_LOST_WORKERS = 5

/** All texts that a claim may have: five losses end a row, so they are few, and an index finds them in any collation. */
export function claimAndItsLosses(claim: string): string[] {
  return [claim, ...Array.from({ length: MAX_LOST_WORKERS }, (_, index) => afterLoss(claim, index + 1))]
}

/** Prefix of a claim that an item's own workflow holds, not a run. */
export const OWN_WORKFLOW_CLAIM = 'retry-'

/** Whether a single item's workflow holds a row, between two of its attempts too. */
export function isOfRetry(claim: string): boolean {
  return claim.startsWith(OWN_WORKFLOW_CLAIM)
}

/** The claim of a row that waits for the next attempt of a single item's workflow: a run leaves it alone. */
export function whileWaiting(retryClaim: string): string {
  return claimOf(retryClaim.slice(0, retryClaim.lastIndexOf(':')), 'waiting')
}
