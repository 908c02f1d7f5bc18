/** Pieces of TypeScript, laid out as a formatter with lines of 120 characters would. */
export const MAX_LINE_LENGTH = 120

/** Blocks of a file or of a class, an empty line between two; what is false is left out. */
export function blocks(...given: readonly (string | false)[]): string {
  return given.filter((block) => block !== false).join('\n\n')
}

/** Lines that follow each other; what is false is left out. */
export function lines(...given: readonly (string | false)[]): string {
  return given.filter((line) => line !== false).join('\n')
}

/** Nothing when no name is wanted. */
export function importStatement(
  kind: 'import' | 'import type',
  names: readonly string[],
  from: string,
): string | false {
  if (names.length === 0) return false
  const sorted = [...names].sort((a, b) => compare(sortKey(a), sortKey(b)))
  const line = `${kind} { ${sorted.join(', ')} } from '${from}'`
  if (line.length <= MAX_LINE_LENGTH) return line
  return [`${kind} {`, ...sorted.map((name) => `  ${name},`), `} from '${from}'`].join('\n')
}

/** By Biome's order: letter by letter, of one letter the capital first. */
function sortKey(name: string): string {
  return name.replace(/./g, (letter) => `${letter.toLowerCase()}${letter === letter.toLowerCase() ? 1 : 0}`)
}

/** The first line of a class, its brace included. */
export function classHead(name: string, parent: string | null, contracts: readonly string[]): string {
  const clauses = [
    ...(parent === null ? [] : [`extends ${parent}`]),
    ...(contracts.length === 0 ? [] : [`implements ${contracts.join(', ')}`]),
  ]
  const line = ['export class', name, ...clauses, '{'].join(' ')
  if (line.length <= MAX_LINE_LENGTH) return line
  return [`export class ${name}`, ...clauses.map((clause) => `  ${clause}`), '{'].join('\n')
}

/** In single quotes, unless it has some and no double ones. */
export function quoted(text: string): string {
  const escaped = text.replace(/[\\\n\r]/g, (character) => JSON.stringify(character).slice(1, -1))
  return escaped.includes("'") && !escaped.includes('"') ? `"${escaped}"` : `'${escaped.replaceAll("'", "\\'")}'`
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
