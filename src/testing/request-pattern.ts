/**
 * Which fake answers a call: patterns such as `GET issues/*`, `issues/7`, `POST repos/x/issues?dry_run=1`.
 *
 * Rule: docs/testing.md, "Patterns".
 */

export interface RequestPattern {
  readonly text: string
  /** Upper case; null: any. */
  readonly method: string | null
  readonly segments: readonly string[]
  /** Null: whatever the query says. */
  readonly query: string | null
}

export interface RequestName {
  readonly method: string
  readonly endpoint: string
}

const METHOD = /^([A-Za-z]+)\s+(\S.*)$/

export function parsePattern(text: string): RequestPattern {
  const [, method, rest] = METHOD.exec(text.trim()) ?? []
  const { segments, query } = partsOf(rest ?? text.trim())
  if (segments.length === 0)
    throw new RangeError(`a pattern is "[METHOD ]path", such as "GET issues/*"; ${JSON.stringify(text)} was given`)
  return { text, method: method?.toUpperCase() ?? null, segments, query }
}

export function matches(pattern: RequestPattern, { method, endpoint }: RequestName): boolean {
  if (pattern.method !== null && pattern.method !== method.toUpperCase()) return false
  const { segments, query } = partsOf(endpoint)
  if (pattern.query !== null && !fits(pattern.query, query ?? '')) return false
  if (pattern.segments.length !== segments.length) return false
  return pattern.segments.every((wanted, index) => fits(wanted, segments[index] as string))
}

/**
 * Below 0 when `a` goes before `b`: method and exact, method and wildcard, exact, wildcard; then more segments, then fewer
 * stars, then one that names a query. Equal ones stay as they were given.
 */
export function byPrecedence(a: RequestPattern, b: RequestPattern): number {
  return (
    rankOf(a) - rankOf(b) ||
    b.segments.length - a.segments.length ||
    starsIn(a) - starsIn(b) ||
    Number(b.query !== null) - Number(a.query !== null)
  )
}

function rankOf(pattern: RequestPattern): number {
  return (pattern.method === null ? 2 : 0) + (starsIn(pattern) > 0 ? 1 : 0)
}

function starsIn({ segments, query }: RequestPattern): number {
  return [...segments, query ?? ''].join('/').split('*').length - 1
}

/** A slash at either end says nothing. */
function partsOf(path: string): { segments: string[]; query: string | null } {
  const [before = '', ...after] = path.split('?')
  const segments = before.replace(/^\/+|\/+$/g, '').split('/')
  return { segments: segments[0] === '' ? [] : segments, query: after.length === 0 ? null : after.join('?') }
}

function fits(wanted: string, given: string): boolean {
  const pieces = wanted.split('*').map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${pieces.join('.*')}$`, 's').test(given)
}
