/** The order in which rows of a lost worker are taken up. Rule: docs/behaviour/sync-items.md, "Lost workers". */
import { lossesOf } from '../core/claim.ts'

/**
 * Rows that have lost one worker run beside each other: most of them had not even started, and one after the other a full
 * batch of slow handlers would take an hour. A row that has lost more runs alone: if it is what kills workers, it takes no
 * other down.
 */
export function takenUpTogether<Row extends { readonly claim: string | null }>(
  rows: readonly Row[],
  claim: string,
  concurrency: number,
): readonly Row[][] {
  const isFirstLoss = (row: Row): boolean => lossesOf(row.claim ?? claim, claim) === 0
  const first = rows.filter(isFirstLoss)
  const together: Row[][] = []
  for (let at = 0; at < first.length; at += concurrency) together.push(first.slice(at, at + concurrency))
  return [...together, ...rows.filter((row) => !isFirstLoss(row)).map((row) => [row])]
}
