/** The yardstick of the rules: how old a copy is on average. */

/** Mean seconds since the first change that the copy lacks; 0 while it lacks none. */
export function meanAgeSeconds(changesPerSecond: number, seconds: number): number {
  const changes = changesPerSecond * seconds
  // The difference of nearly equal numbers: its series instead.
  if (changes < 1e-3) return (seconds * changes) / 6
  return seconds / 2 + (-Math.expm1(-changes) / changes - 1) / changesPerSecond
}
