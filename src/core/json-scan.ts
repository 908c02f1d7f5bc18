/**
 * Walks a JSON text without rewriting it: what stands where. Parsing and writing it again would lose digits of numbers above
 * 2^53 and the provider's own formatting.
 */

export interface JsonScan<State> {
  /** What is known at a member or an element, from what is known around it; null: its value is taken whole. */
  readonly step: (around: State, key: string, inList: boolean) => State | null
  readonly taken: (start: number, end: number) => void
  /** A name, string, number, true, false or null that is not inside a taken value; strings with their quotes. */
  readonly scalar: (start: number, end: number) => void
}

/**
 * Keeps a stack of its own: a text may be nested deeper than calls can be.
 *
 * @param text must be valid JSON (RFC 8259)
 */
export function scanJson<State>(text: string, root: State, { step, taken, scalar }: JsonScan<State>): void {
  const open: { readonly state: State; readonly isList: boolean; elements: number }[] = []
  let state: State | null = root
  let at = 0
  for (;;) {
    at = nextToken(text, at)
    const first = text[at]
    if (state === null) {
      const end = endOfValue(text, at)
      taken(at, end)
      at = end
    } else if (first === '{' || first === '[') {
      open.push({ state, isList: first === '[', elements: 0 })
      at += 1
    } else {
      const end = endOfValue(text, at)
      scalar(at, end)
      at = end
    }

    at = nextToken(text, at)
    while (open.length > 0 && (text[at] === '}' || text[at] === ']')) {
      open.pop()
      at = nextToken(text, at + 1)
    }
    const around = open.at(-1)
    if (around === undefined) return
    if (around.isList) {
      state = step(around.state, String(around.elements), true)
      around.elements += 1
    } else {
      const end = endOfString(text, at)
      scalar(at, end)
      state = step(around.state, JSON.parse(text.slice(at, end)) as string, false)
      at = end
    }
  }
}

/** Past white space and the separators, which say nothing that the stack does not know. */
function nextToken(text: string, from: number): number {
  let at = from
  while (at < text.length && ' \t\n\r,:'.includes(text[at] as string)) at += 1
  return at
}

function endOfValue(text: string, start: number): number {
  const first = text[start]
  if (first === '"') return endOfString(text, start)
  if (first === '{' || first === '[') return endOfContainer(text, start)
  const end = /[ \t\n\r,\]}]/g
  end.lastIndex = start
  return end.exec(text)?.index ?? text.length
}

function endOfString(text: string, start: number): number {
  for (let quote = start; ; ) {
    quote = text.indexOf('"', quote + 1)
    let backslashes = 0
    while (text[quote - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return quote + 1
  }
}

function endOfContainer(text: string, start: number): number {
  const mark = /["{}[\]]/g
  let depth = 0
  for (let at = start; ; ) {
    mark.lastIndex = at
    const found = mark.exec(text)
    if (found === null) return text.length
    at = found.index + 1
    if (found[0] === '"') at = endOfString(text, found.index)
    else if (found[0] === '{' || found[0] === '[') depth += 1
    else depth -= 1
    if (depth === 0) return at
  }
}
