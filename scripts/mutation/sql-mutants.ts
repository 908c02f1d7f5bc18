/**
 * Mutants of a function in SQL, made by changing its text in one place.
 *
 * Only what stands between the two `$$` is changed, and neither comments nor texts in quotes. A mutant need not be valid: Postgres says
 * so when it is applied.
 */
import { shortened } from './results.ts'

export interface SqlMutant {
  readonly line: number
  readonly source: string
  readonly mutator: string
  readonly change: string
  /** Of the whole file. */
  readonly text: string
}

interface Token {
  readonly kind: 'word' | 'number' | 'text' | 'operator' | 'sign'
  /** Words in capitals. */
  readonly value: string
  readonly start: number
  readonly end: number
}

interface Edit {
  readonly mutator: string
  readonly start: number
  readonly end: number
  readonly by: string
}

/** A bound moves by one, and an equality turns round. */
const COMPARISONS: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '=': '<>',
  '<>': '=',
}
const WORDS: Readonly<Record<string, string>> = {
  AND: 'OR',
  OR: 'AND',
  TRUE: 'false',
  FALSE: 'true',
  GREATEST: 'least',
  LEAST: 'greatest',
  DESC: 'ASC',
}
/** What ends a condition at its own depth. */
const ENDS = new Set(
  'ORDER GROUP HAVING LIMIT RETURNING FOR UNION LOOP WHERE CROSS JOIN LEFT THEN DO INTO WHEN ELSE ON'.split(' '),
)

export function sqlMutantsOf(file: string): SqlMutant[] {
  const tokens = tokensOf(file)
  const seen = new Set([file])
  return tokens
    .flatMap((_, at) => editsAt(file, tokens, at))
    .sort((a, b) => a.start - b.start)
    .flatMap(({ mutator, start, end, by }) => {
      const text = file.slice(0, start) + by + file.slice(end)
      if (seen.has(text)) return []
      seen.add(text)
      const before = file.slice(0, start).split('\n')
      const source = `${before.at(-1)}${file.slice(start).split('\n', 1)[0]}`
      const change = `${shortened(file.slice(start, end))} → ${shortened(by) || '(nothing)'}`
      return { line: before.length, source: shortened(source), mutator, change, text }
    })
}

function editsAt(file: string, tokens: readonly Token[], at: number): Edit[] {
  const token = tokens[at] as Token
  const next = tokens[at + 1]
  const previous = tokens[at - 1]
  const edit = (mutator: string, start: number, end: number, by: string): Edit => ({ mutator, start, end, by })
  const here = (mutator: string, by: string): Edit => edit(mutator, token.start, token.end, by)
  const { kind, value } = token

  if (kind === 'operator') {
    if (value in COMPARISONS) return [here('comparison', COMPARISONS[value] as string)]
    // `jsonb - 'key'` has no sum.
    if (value === '-' && next?.kind === 'text') return []
    return value === '+' ? [here('arithmetic', '-')] : value === '-' ? [here('arithmetic', '+')] : []
  }
  if (kind === 'number') {
    // A number of a column, not of a thing.
    if (previous?.value === 'BY') return []
    return [1, -1].map((by) => here('constant', String(Number(value) + by)))
  }
  if (kind !== 'word') return []

  const edits: Edit[] = []
  // `BETWEEN a AND b` and `IS DISTINCT` are not written here; `CREATE OR REPLACE` stands before the `$$`.
  if (value in WORDS)
    edits.push(here(value === 'TRUE' || value === 'FALSE' ? 'constant' : 'word', WORDS[value] as string))
  if (value === 'NOT' && previous?.value !== 'IF')
    edits.push(edit('negation', token.start, next?.start ?? token.end, ''))
  if (value === 'IS' && next?.value === 'NULL') edits.push(edit('negation', next.start, next.end, 'NOT NULL'))
  if ((value === 'COALESCE' || value === 'NULLIF') && next?.value === '(') {
    const given = argumentsAt(tokens, at + 1)
    const end = given.at(-1)?.after as number
    const first = given[0] as Span
    const rest = given.slice(1)
    edits.push(edit('default', token.start, end, file.slice(first.start, first.end)))
    if (value === 'COALESCE' && rest.length > 0)
      edits.push(edit('default', token.start, end, file.slice(rest[0]?.start, rest.at(-1)?.end)))
  }
  if (value === 'PERFORM') {
    const end = tokens.findIndex((each, index) => index > at && each.value === ';')
    edits.push(edit('statement', token.start, tokens[end]?.end ?? token.end, 'NULL;'))
  }
  if (value === 'FOR' && ['UPDATE', 'NO', 'KEY', 'SHARE'].includes(next?.value ?? '')) {
    let last = at + 1
    while (['UPDATE', 'KEY', 'SHARE', 'NO', 'SKIP', 'LOCKED'].includes(tokens[last + 1]?.value ?? '')) last += 1
    edits.push(edit('lock', token.start, tokens[last]?.end ?? token.end, ''))
  }
  if (value === 'SKIP' && next?.value === 'LOCKED') edits.push(edit('lock', token.start, next.end, ''))
  if (value === 'WHERE' || value === 'ON')
    edits.push(...conjunctsAfter(tokens, at).map((span) => edit('conjunct', span.start, span.end, 'true')))
  if (value === 'IF' || value === 'ELSIF' || (value === 'WHEN' && isSearched(tokens, at))) {
    const [whole] = spansAfter(tokens, at, () => false)
    if (previous?.value !== 'END' && whole !== undefined)
      edits.push(edit('branch', whole.start, whole.end, `NOT coalesce(${file.slice(whole.start, whole.end)}, false)`))
  }
  return edits
}

interface Span {
  readonly start: number
  readonly end: number
}

/** The parts that `AND` joins; the whole when an `OR` stands beside them. */
function conjunctsAfter(tokens: readonly Token[], at: number): Span[] {
  // `ON CONFLICT` is no condition.
  if (tokens[at + 1]?.value === 'CONFLICT') return []
  const parts = spansAfter(tokens, at, ({ value }) => value === 'AND')
  const hasOr = spansAfter(tokens, at, ({ value }) => value === 'OR').length > 1
  const [first] = parts
  return hasOr && first !== undefined ? [{ start: first.start, end: (parts.at(-1) as Span).end }] : parts
}

/** What follows up to the end of the condition, cut where `cuts` says so at its own depth. */
function spansAfter(tokens: readonly Token[], at: number, cuts: (token: Token) => boolean): Span[] {
  const spans: Span[] = []
  let depth = 0
  let from = at + 1
  let index = at + 1
  const close = (): void => {
    const [first, last] = [tokens[from], tokens[index - 1]]
    if (first !== undefined && last !== undefined && index > from) spans.push({ start: first.start, end: last.end })
  }
  for (; index < tokens.length; index += 1) {
    const { value, kind } = tokens[index] as Token
    if (kind === 'text') continue
    if (value === '(' || value === '[' || value === 'CASE') depth += 1
    else if (value === ')' || value === ']' || (value === 'END' && depth > 0)) depth -= 1
    if (depth < 0 || (depth === 0 && (value === ';' || value === ',' || (kind === 'word' && ENDS.has(value))))) break
    if (depth === 0 && cuts(tokens[index] as Token)) {
      close()
      from = index + 1
    }
  }
  close()
  return spans
}

/** `CASE WHEN …`, whose branches are conditions; those of `CASE x WHEN …` are values. */
function isSearched(tokens: readonly Token[], at: number): boolean {
  let depth = 0
  for (let index = at - 1; index >= 0; index -= 1) {
    const { value } = tokens[index] as Token
    if (value === 'END') depth += 1
    else if (value === 'CASE') {
      if (depth === 0) return tokens[index + 1]?.value === 'WHEN'
      depth -= 1
    }
  }
  return false
}

/** @param open of its parenthesis */
function argumentsAt(tokens: readonly Token[], open: number): (Span & { readonly after: number })[] {
  const found: Span[] = []
  let depth = 0
  let from = open + 1
  for (let index = open; index < tokens.length; index += 1) {
    const { value, kind } = tokens[index] as Token
    if (kind === 'text') continue
    if (value === '(' || value === '[') depth += 1
    if (value === ')' || value === ']') depth -= 1
    if (depth === 0 || (depth === 1 && value === ',')) {
      found.push({ start: (tokens[from] as Token).start, end: (tokens[index - 1] as Token).end })
      from = index + 1
    }
    if (depth === 0) return found.map((span) => ({ ...span, after: (tokens[index] as Token).end }))
  }
  throw new Error('a parenthesis is not closed')
}

const TOKEN =
  /(?<blank>\s+|--[^\n]*)|(?<text>'(?:[^']|'')*'|"(?:[^"]|"")*")|(?<word>[A-Za-z_][A-Za-z0-9_]*)|(?<number>\d+(?:\.\d+)?)|(?<operator>[-+*/<>=~!@#%^&|`?:]+)|(?<sign>.)/gy

function tokensOf(file: string): Token[] {
  const start = file.indexOf('$$')
  const end = file.lastIndexOf('$$')
  if (start === end) throw new Error('expected a function whose body stands between two $$')
  const tokens: Token[] = []
  for (const { index, groups, 0: value } of file.slice(start + 2, end).matchAll(TOKEN)) {
    const kind = Object.entries(groups ?? {}).find(([, found]) => found !== undefined)?.[0] as Token['kind'] | 'blank'
    if (kind === 'blank') continue
    const from = start + 2 + index
    tokens.push({ kind, value: kind === 'word' ? value.toUpperCase() : value, start: from, end: from + value.length })
  }
  return tokens
}
