/** Where a `Link` header leads. Standard: RFC 8288, section 3, read as its appendix B.2 says. */

/**
 * The target of the first link with that relation; null without one.
 *
 * From left to right, each character once: what is no `Link` costs no more than one that is.
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
  // What stands behind the closing quote belongs to nothing.
  text.upTo(';,')
  return value
}

class Scanner {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Whether the character is the next one but for white space; then it is passed. */
  takes(character: string): boolean {
    while (this.#next === ' ' || this.#next === '\t') this.#at += 1
    if (this.#next !== character) return false
    this.#at += 1
    return true
  }

  /** What stands before the first of these characters, or before the end. */
  upTo(characters: string): string {
    const from = this.#at
    while (this.#next !== undefined && !characters.includes(this.#next)) this.#at += 1
    return this.#text.slice(from, this.#at)
  }

  /** What stands before the closing quote, or before the end; a backslash makes the next character an ordinary one. */
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
