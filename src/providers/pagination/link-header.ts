/** Parses a `Link` header. Standard: RFC 8288, section 3, read as its appendix B.2 says. */

/**
 * The target of the first link with that relation; null without one.
 *
 * Reads each character once, from left to right, so an invalid header costs no more than a valid one.
 */
export function linkTo(relation: string, header: string): string | null {
  const text = new Scanner(header)
  for (;;) {
    // An element of a list may be empty: RFC 9110, 5.6.1.2.
    while (text.takes(','));
    if (!text.takes('<')) return null
    const target = text.upTo('>')
    if (!text.takes('>')) return null
    if (relationsOf(text).includes(relation)) return target
    text.upTo(',')
  }
}

/** In lower case. Of several `rel` the first one holds, and it may name several: section 3.3. */
function relationsOf(text: Scanner): string[] {
  let relations: string | null = null
  while (text.takes(';')) {
    const name = text.upTo('=;,').trim().toLowerCase()
    const value = text.takes('=') ? valueAt(text) : ''
    if (name === 'rel') relations ??= value
  }
  return (relations ?? '').toLowerCase().split(/\s+/)
}

function valueAt(text: Scanner): string {
  if (!text.takes('"')) return text.upTo(';,').trim()
  const value = text.quoted()
  // Text behind the closing quote is ignored.
  text.upTo(';,')
  return value
}

class Scanner {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Skips white space. If the character comes next, passes it and returns true. */
  takes(character: string): boolean {
    while (this.#next === ' ' || this.#next === '\t') this.#at += 1
    if (this.#next !== character) return false
    this.#at += 1
    return true
  }

  /** The text before the first of these characters, or before the end. */
  upTo(characters: string): string {
    const from = this.#at
    while (this.#next !== undefined && !characters.includes(this.#next)) this.#at += 1
    return this.#text.slice(from, this.#at)
  }

  /** The text before the closing quote, or before the end; a backslash escapes the next character. */
  quoted(): string {
    const characters: string[] = []
    for (; this.#next !== undefined && this.#next !== '"'; this.#at += 1) {
      if (this.#next === '\\') this.#at += 1
      characters.push(this.#next ?? '')
    }
    this.#at += 1
    return characters.join('')
  }

  get #next(): string | undefined {
    return this.#text[this.#at]
  }
}
