/** The most of these moments that any span of so many milliseconds holds. */
export function mostWithin(moments: readonly number[], spanMs: number): number {
  const sorted = [...moments].sort((a, b) => a - b)
  let most = 0
  let first = 0
  for (const [last, moment] of sorted.entries()) {
    while ((sorted[first] as number) <= moment - spanMs) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}
