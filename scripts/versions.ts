/** Versions as lists of numbers, the major one first. A number that is left out is 0. */

export function isAtLeast(version: readonly number[], oldest: readonly number[]): boolean {
  for (const [place, wanted] of oldest.entries()) {
    const found = version[place] ?? 0
    if (found !== wanted) return found > wanted
  }
  return true
}
