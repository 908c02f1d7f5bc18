/**
 * Walks a JSON text without rewriting it: what stands where. Parsing and writing it again would lose digits of numbers above
 * 2^53 and the provider's own formatting.
 */

import { MAX_DEPTH } from './json.ts'

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

/**
 * Why a JSON text does not come back as it was written, once it was parsed; null: it does.
 *
 * @param text must be valid JSON (RFC 8259)
 */
export function lossInParsing(text: string): 'it is nested too deep' | 'a number in it is not held exactly' | null {
  let isTooDeep = false
  let isInexact = false
  scanJson(text, 0, {
    step(around) {
      isTooDeep ||= around + 1 > MAX_DEPTH
      return around + 1
    },
    taken() {},
    scalar(start, end) {
      isInexact ||= /[-\d]/.test(text.charAt(start)) && !isHeldExactly(text.slice(start, end))
    },
  })
  return isTooDeep ? 'it is nested too deep' : isInexact ? 'a number in it is not held exactly' : null
}

/** JSON's numbers have any number of digits, JavaScript's some 16. */
function isHeldExactly(number: string): boolean {
  const value = Number(number)
  return Number.isFinite(value) && decimalOf(number) === decimalOf(String(value))
}

/** Digits and power of ten, the same for each way in which a number can be written. */
function decimalOf(number: string): string {
  const [, whole = '', fraction = '', power = '0'] = /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(number) ?? []
  const written = `${whole}${fraction}`.replace(/^0+/, '')
  const digits = written.replace(/0+$/, '')
  return digits === '' ? '0' : `${digits}e${Number(power) - fraction.length + written.length - digits.length}`
}
