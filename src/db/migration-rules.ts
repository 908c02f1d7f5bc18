/** Migrations in a sentence: how many, the first and the last. All of their names are a screen of text. */
export function firstAndLast(names: readonly string[]): string {
  const [first = '', ...more] = names
  const last = more.at(-1)
  return last === undefined ? `1 migration: ${first}` : `${names.length} migrations: ${first} to ${last}`
}
