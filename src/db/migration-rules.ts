/** Migrations in a sentence: how many, the first and the last. All of their names are a screen of text. */
export function firstAndLast(names: readonly string[]): string {
  return names.length === 1 ? `1 migration: ${names[0]}` : `${names.length} migrations: ${names[0]} to ${names.at(-1)}`
}
