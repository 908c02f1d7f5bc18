/** Which known name a mistyped one was meant to be. */

/** The known name closest to `given`; null when none is close enough to be more help than noise. */
export function nearestName(given: string, known: Iterable<string>): string | null {
  const letters = given.toLowerCase()
  let nearest: string | null = null
  let fewest = Math.max(2, Math.floor(given.length / 3)) + 1
  for (const name of known) {
    const edits = editDistance(letters, name.toLowerCase())
    if (edits < fewest) {
      nearest = name
      fewest = edits
    }
  }
  return nearest
}

/** Levenshtein: characters to insert, delete or replace. */
function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1)
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[to.length] ?? 0
}
