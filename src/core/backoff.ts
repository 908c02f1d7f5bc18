/**
 * The wait after attempt N: entry N of the list, the last entry reused past its end.
 *
 * @param attempt the attempt that ended, from 1
 * @param delaysSeconds at least one entry
 */
export function delayAfter(attempt: number, delaysSeconds: readonly number[]): number {
  const index = Math.min(attempt, delaysSeconds.length) - 1
  return delaysSeconds[Math.max(index, 0)] ?? 0
}
