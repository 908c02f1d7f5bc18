/**
 * Finds secrets in a text, and replaces them. Time and memory grow with the text, whatever stands in it: a provider chooses both
 * its answers and the tokens that it issues.
 *
 * One function that uses nothing from outside, since a large text is redacted in a thread that is started from the source of this
 * function: framework/redaction-thread.ts says why.
 * Rule: docs/behaviour/requests.md, "Redaction".
 */

/** What a JSON body loses besides credentials: segments of a dot path, `*` for any one key or element. */
export type RedactionPath = readonly string[]

export interface StoredRules {
  readonly secrets: readonly string[]
  readonly paths: readonly RedactionPath[]
  /** Null: whole. */
  readonly maxBytes: number | null
  /** It is a JSON text as its provider wrote it: to be stored as `JSON.stringify()` writes it. */
  readonly isRaw: boolean
}

export type CacheRules = Pick<StoredRules, 'secrets' | 'paths' | 'isRaw'>

export interface Redactor {
  /** @param secrets as `secretsOf()` spells them */
  redactText(text: string, secrets: readonly string[]): string
  /**
   * A JSON text or a form without secrets: values at the paths and under secret keys, and every credential wherever it occurs.
   * A JSON text stays one. All other bytes stay as they are.
   *
   * @param paths only a JSON text has such
   */
  redactBody(body: string, secrets: readonly string[], paths?: readonly RedactionPath[]): string
  /** As its row holds it: what Postgres can hold, redacted, then cut. */
  redactStored(body: string, rules: StoredRules): string
  /** What a call gives as JSON text, for it to be served again; null where redaction would change that, or the body. */
  cacheable(body: string, json: string, rules: CacheRules): string | null
  /** Postgres text holds no U+0000 and UTF-8 no half of a surrogate pair: neither must cost the row. */
  storable(text: string): string
  /**
   * The text cut to `maxBytes` of UTF-8 on a character boundary, the note about the cut included.
   *
   * @param maxBytes at least 64; null leaves the text whole
   */
  cutToBytes(text: string, maxBytes: number | null): string
}

export function createRedactor(): Redactor {
  const MARK = '[REDACTED]'
  const MIN_SECRET_LENGTH = 8

  /** OAuth and OpenID Connect parameters that are secrets wherever they stand (RFC 6749, RFC 7636, RFC 7521). */
  const SECRET_KEYS: ReadonlySet<string> = new Set([
    'access_token',
    'refresh_token',
    'id_token',
    'client_secret',
    'code_verifier',
    'client_assertion',
  ])

  /** OAuth's token endpoint is asked, and by some providers answered, with a form (RFC 6749, section 4.1.3). */
  const SECRET_FORM_FIELD = new RegExp(`(?<=^|&)(?:${[...SECRET_KEYS].join('|')})=[^&]*`, 'g')

  /** Where something begins and ends, one after the other: `[start, end, start, end, …]`, ascending, none overlapping. */
  type Spans = number[]

  function redactText(text: string, secrets: readonly string[]): string {
    return withoutSpans(text, secretSpans(text, secrets))
  }

  function redactBody(body: string, secrets: readonly string[], paths: readonly RedactionPath[] = []): string {
    const spans = secretSpans(body, secrets)
    const mayHoldKey = body.includes('\\u') || [...SECRET_KEYS].some((key) => body.includes(key))
    if (paths.length === 0 && !mayHoldKey && spans.length === 0) return body
    return isJson(body)
      ? withoutJsonSpans(body, spans, paths)
      : withoutSpans(body, mayHoldKey ? union(spans, formSpans(body)) : spans)
  }

  function withoutSpans(text: string, spans: Spans): string {
    if (spans.length === 0) return text
    const output = replacing(text)
    for (let i = 0; i < spans.length; i += 2) output.replace(spans[i] as number, spans[i + 1] as number, MARK)
    return output.end()
  }

  function formSpans(form: string): Spans {
    const spans: Spans = []
    for (const { 0: field, index } of form.matchAll(SECRET_FORM_FIELD))
      spans.push(index + field.indexOf('=') + 1, index + field.length)
    return spans
  }

  /** The text with its replacements, which come in their order. What lies in one that was made is not made again. */
  function replacing(text: string) {
    const pieces: string[] = []
    let at = 0
    return {
      replace(start: number, end: number, by: string): void {
        if (start >= at) pieces.push(text.slice(at, start), by)
        at = Math.max(at, end)
      },
      end: () => pieces.join('') + text.slice(at),
    }
  }

  // Where secrets stand.

  /** Up to this length each secret is looked for by itself: what is built to look for all of them at once costs more. */
  const SHORT_TEXT_LENGTH = 4_096

  /** Each secret as it is spelled, and where the text says the same by escapes of JSON, by percent-encoding, or by both. */
  function secretSpans(text: string, secrets: readonly string[]): Spans {
    if (secrets.length === 0 || text.length < MIN_SECRET_LENGTH) return []
    const find = text.length <= SHORT_TEXT_LENGTH ? eachSecret : allSecrets
    let spans = find(text, secrets)
    // All other escapes are spelled in one way only, which the secrets hold (RFC 8259, section 7); an escaped backslash may begin one.
    const unescaped = /\\[u/\\]/.test(text) ? readView(text, null, jsonEscape) : null
    if (unescaped !== null) spans = union(spans, inText(find(unescaped.text, secrets), unescaped))
    for (const around of unescaped === null ? [null] : [null, unescaped]) {
      const written = around?.text ?? text
      if (!written.includes('%')) continue
      const view = readView(written, around, percentEscape)
      spans = union(spans, inText(find(view.text, secrets), view))
    }
    if (spans.length === 0 || !text.includes('\\')) return spans
    return wholeEscapes(spans, unescaped ?? readView(text, null, jsonEscape))
  }

  /** What a text says when its escapes are read. */
  interface View {
    readonly text: string
    /** Where each of its characters begins in the text itself, and where the last one ends. */
    readonly starts: Uint32Array
  }

  /** One character as it is read. One object serves a whole text, which would else need an object for each. */
  interface Character {
    code: number
    /** How much of the text spells it. */
    length: number
  }

  /** @param around the view that `text` is of; null: it is the text itself */
  function readView(
    text: string,
    around: View | null,
    readEscape: (text: string, at: number, found: Character) => void,
  ): View {
    const codes = new Uint16Array(text.length)
    const starts = new Uint32Array(text.length + 1)
    const found: Character = { code: 0, length: 1 }
    let count = 0
    for (let at = 0; at < text.length; at += found.length) {
      found.code = text.charCodeAt(at)
      found.length = 1
      readEscape(text, at, found)
      codes[count] = found.code
      starts[count] = around === null ? at : (around.starts[at] as number)
      count += 1
    }
    starts[count] = around === null ? text.length : (around.starts[text.length] as number)
    return { text: Buffer.from(codes.buffer, 0, count * 2).toString('utf16le'), starts }
  }

  const SHORT_ESCAPES = new Map([...'bfnrt'].map((letter, i) => [letter.charCodeAt(0), '\b\f\n\r\t'.charCodeAt(i)]))

  /** RFC 8259, section 7. */
  function jsonEscape(text: string, at: number, found: Character): void {
    if (found.code !== 0x5c || at + 1 === text.length) return
    const kind = text.charCodeAt(at + 1)
    const code = kind === 0x75 ? hexAt(text, at + 2, 4) : (SHORT_ESCAPES.get(kind) ?? kind)
    if (code === -1) return
    found.code = code
    found.length = kind === 0x75 ? 6 : 2
  }

  /** RFC 3986, section 2.1: a byte of UTF-8, which the secrets hold as a character. */
  function percentEscape(text: string, at: number, found: Character): void {
    if (found.code !== 0x25) return
    const code = hexAt(text, at + 1, 2)
    if (code === -1) return
    found.code = code
    found.length = 3
  }

  /** -1: there are fewer hexadecimal digits. */
  function hexAt(text: string, at: number, digits: number): number {
    let value = 0
    for (let i = at; i < at + digits; i += 1) {
      const code = text.charCodeAt(i) | 0x20
      const digit = code >= 0x30 && code <= 0x39 ? code - 0x30 : code >= 0x61 && code <= 0x66 ? code - 0x57 : -1
      if (digit === -1) return -1
      value = value * 16 + digit
    }
    return value
  }

  function inText(spans: Spans, { starts }: View): Spans {
    return spans.map((at) => starts[at] as number)
  }

  /** A secret that begins with an `n` may follow on a backslash: half an escape must not stay. */
  function wholeEscapes(spans: Spans, { text, starts }: View): Spans {
    const whole: Spans = []
    let k = 0
    for (let i = 0; i < spans.length; i += 2) {
      while (k < text.length && (starts[k + 1] as number) <= (spans[i] as number)) k += 1
      const start = starts[k] as number
      while ((starts[k] as number) < (spans[i + 1] as number)) k += 1
      add(whole, start, starts[k] as number)
    }
    return whole
  }

  /** Both, in their order; what overlaps becomes one. */
  function union(a: Spans, b: Spans): Spans {
    if (a.length === 0 || b.length === 0) return a.length === 0 ? b : a
    const both: Spans = []
    for (let i = 0, j = 0; i < a.length || j < b.length; ) {
      const isA = j >= b.length || (i < a.length && (a[i] as number) <= (b[j] as number))
      if (isA) add(both, a[i] as number, a[i + 1] as number)
      else add(both, b[j] as number, b[j + 1] as number)
      if (isA) i += 2
      else j += 2
    }
    return both
  }

  /** Appends a span, or widens the last ones, which overlap it. */
  function add(spans: Spans, start: number, end: number): void {
    let from = start
    let to = end
    while (spans.length > 0 && from < (spans[spans.length - 1] as number)) {
      to = Math.max(to, spans.pop() as number)
      from = Math.min(from, spans.pop() as number)
    }
    spans.push(from, to)
  }

  /** In a short text, with what the platform does best. */
  function eachSecret(text: string, secrets: readonly string[]): Spans {
    let spans: Spans = []
    for (const secret of secrets) {
      if (!text.includes(secret)) continue
      const own: Spans = []
      for (let at = text.indexOf(secret); at !== -1; at = text.indexOf(secret, at + 1)) add(own, at, at + secret.length)
      spans = union(spans, own)
    }
    return spans
  }

  /** In one pass over the text, however many secrets there are and however they begin alike. */
  function allSecrets(text: string, secrets: readonly string[]): Spans {
    const automaton = automatonOf(secrets)
    const { first, fallback, longest } = automaton
    const spans: Spans = []
    let node = 0
    for (let at = 0; at < text.length; at += 1) {
      const wanted = text.charCodeAt(at)
      // Most characters begin no secret.
      if (node === 0 && wanted < first.length && first[wanted] === 0) continue
      let to = childOf(automaton, node, wanted)
      while (to === 0 && node !== 0) {
        node = fallback[node] as number
        to = childOf(automaton, node, wanted)
      }
      node = to
      if (longest[node] !== 0) add(spans, at + 1 - (longest[node] as number), at + 1)
    }
    return spans
  }

  /**
   * The automaton of Aho and Corasick (Communications of the ACM 18, 1975): a tree of all secrets, in which a node is what some of
   * them begin with. Node 0 is the root, and no child.
   */
  interface Automaton {
    /** The root's children by their character, where that is ASCII. */
    readonly first: Int32Array
    /** All other children are lists: this leads to a node's first one, `next` from one to another. */
    readonly child: Int32Array
    readonly next: Int32Array
    /** The character that leads to a node. */
    readonly code: Uint16Array
    /** The node of the longest end of this one's text that a secret begins with, too. */
    readonly fallback: Int32Array
    /** Length of the longest secret with which this node's text ends; 0 for none. */
    readonly longest: Int32Array
  }

  function childOf({ first, child, next, code }: Automaton, node: number, wanted: number): number {
    if (node === 0 && wanted < first.length) return first[wanted] as number
    let to = child[node] as number
    while (to !== 0 && code[to] !== wanted) to = next[to] as number
    return to
  }

  const automatons = new WeakMap<readonly string[], Automaton>()

  function automatonOf(secrets: readonly string[]): Automaton {
    const automaton = automatons.get(secrets) ?? buildAutomaton(secrets)
    automatons.set(secrets, automaton)
    return automaton
  }

  function buildAutomaton(secrets: readonly string[]): Automaton {
    const size = secrets.reduce((sum, { length }) => sum + length, 1)
    const numbers = () => new Int32Array(size)
    const [child, next, fallback, longest] = [numbers(), numbers(), numbers(), numbers()]
    const automaton = { first: new Int32Array(128), child, next, code: new Uint16Array(size), fallback, longest }
    const { first, code } = automaton
    const roots: number[] = []
    let count = 1
    for (const secret of secrets) {
      let node = 0
      for (let i = 0; i < secret.length; i += 1) {
        const wanted = secret.charCodeAt(i)
        let to = childOf(automaton, node, wanted)
        if (to === 0) {
          to = count
          count += 1
          code[to] = wanted
          if (node === 0) roots.push(to)
          if (node === 0 && wanted < first.length) first[wanted] = to
          else {
            next[to] = child[node] as number
            child[node] = to
          }
        }
        node = to
      }
      longest[node] = secret.length
    }
    // Level by level: a fallback is nearer to the root than its node.
    const queue = new Int32Array(count)
    queue.set(roots)
    let end = roots.length
    for (let at = 0; at < end; at += 1) {
      const node = queue[at] as number
      for (let to = child[node] as number; to !== 0; to = next[to] as number) {
        queue[end] = to
        end += 1
        let back = fallback[node] as number
        let found = childOf(automaton, back, code[to] as number)
        while (found === 0 && back !== 0) {
          back = fallback[back] as number
          found = childOf(automaton, back, code[to] as number)
        }
        fallback[to] = found
        if (longest[to] === 0) longest[to] = longest[found] as number
      }
    }
    return automaton
  }

  // JSON: what stands where. Parsing and writing it again would lose digits of numbers above 2^53 and the provider's own formatting.

  function isJson(text: string): boolean {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }

  /** @param json must be valid JSON (RFC 8259) */
  function withoutJsonSpans(json: string, spans: Spans, paths: readonly RedactionPath[]): string {
    const output = replacing(json)
    const quotedMark = `"${MARK}"`
    let i = 0
    /** Spans that begin outside of all tokens: a credential that is itself a JSON text. */
    const until = (position: number): void => {
      for (; i < spans.length && (spans[i] as number) < position; i += 2) {
        const start = spans[i] as number
        output.replace(start, spans[i + 1] as number, json[start] === '{' || json[start] === '[' ? quotedMark : MARK)
      }
    }
    scanJson(json, paths, (start, end, isWhole) => {
      until(start)
      if (json[start] === '"' && !isWhole) {
        for (; i < spans.length && (spans[i] as number) < end; i += 2)
          output.replace(spans[i] as number, spans[i + 1] as number, MARK)
        return
      }
      // Half a number and the mark would be no JSON.
      let isFound = isWhole
      let to = end
      for (; i < spans.length && (spans[i] as number) < end; i += 2) {
        isFound = true
        to = Math.max(to, spans[i + 1] as number)
      }
      if (isFound) output.replace(start, to, quotedMark)
    })
    until(json.length)
    return output.end()
  }

  /**
   * Keeps a stack of its own: a text may be nested deeper than calls can be.
   *
   * @param visit called with each name, string, number, true, false and null, strings with their quotes; `isWhole`: of a value of
   * whatever kind that stands at a path or under a secret key, and of nothing in it
   */
  function scanJson(
    text: string,
    paths: readonly RedactionPath[],
    visit: (start: number, end: number, isWhole: boolean) => void,
  ): void {
    const around: (PathTree | null)[] = []
    /** How many elements of a list have begun; -1 in an object. */
    const elements: number[] = []
    let here = paths.length === 0 ? null : treeOf(paths)
    let isWhole = false
    let at = 0
    for (;;) {
      at = nextToken(text, at)
      const first = text[at]
      if (!isWhole && (first === '{' || first === '[')) {
        around.push(here)
        elements.push(first === '[' ? 0 : -1)
        at += 1
      } else {
        const end = endOfValue(text, at)
        visit(at, end, isWhole)
        at = end
      }

      at = nextToken(text, at)
      while (around.length > 0 && (text[at] === '}' || text[at] === ']')) {
        around.pop()
        elements.pop()
        at = nextToken(text, at + 1)
      }
      const depth = around.length - 1
      if (depth < 0) return
      const tree = around[depth] as PathTree | null
      const index = elements[depth] as number
      if (index >= 0) {
        elements[depth] = index + 1
        const named = tree === null || tree.named.size === 0 ? undefined : tree.named.get(String(index))
        here = named ?? tree?.any ?? null
        isWhole = here?.isEnd === true
      } else {
        const end = endOfString(text, at)
        visit(at, end, false)
        const written = text.slice(at + 1, end - 1)
        const key = written.includes('\\') ? (JSON.parse(text.slice(at, end)) as string) : written
        here = tree?.named.get(key) ?? tree?.any ?? null
        isWhole = here?.isEnd === true || SECRET_KEYS.has(key)
        at = end
      }
    }
  }

  /** Paths, as a value at which they begin sees them. */
  interface PathTree {
    /** One ends here: the value is taken whole. */
    readonly isEnd: boolean
    readonly named: ReadonlyMap<string, PathTree>
    /** Where the key is another one; null: no path leads on. */
    readonly any: PathTree | null
  }

  function treeOf(paths: readonly RedactionPath[]): PathTree {
    const after = (...keys: string[]) =>
      treeOf(paths.filter(([key]) => key !== undefined && keys.includes(key)).map(([, ...rest]) => rest))
    const keys = new Set(paths.flatMap(([key]) => (key === undefined ? [] : [key])))
    return {
      isEnd: paths.some(({ length }) => length === 0),
      named: new Map([...keys].filter((key) => key !== '*').map((key) => [key, after(key, '*')])),
      any: keys.has('*') ? after('*') : null,
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
    let end = start
    while (end < text.length && !' \t\n\r,]}'.includes(text[end] as string)) end += 1
    return end
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
    let depth = 0
    for (let at = start; ; ) {
      const sign = text[at]
      if (sign === '"') at = endOfString(text, at)
      else at += 1
      if (sign === '{' || sign === '[') depth += 1
      else if (sign === '}' || sign === ']') depth -= 1
      if (depth === 0) return at
    }
  }

  function storable(text: string): string {
    if (!/[\0\ud800-\udfff]/.test(text)) return text
    return text.replaceAll('\u0000', '').replace(/\p{Surrogate}/gu, '\ufffd')
  }

  function cutToBytes(text: string, maxBytes: number | null): string {
    // A UTF-16 unit is at most 3 bytes of UTF-8.
    if (maxBytes === null || text.length * 3 <= maxBytes) return text
    const bytes = Buffer.from(text)
    if (bytes.length <= maxBytes) return text
    const note = ` ...[cut, ${bytes.length} bytes]`
    // A continuation byte at the cut means that a character was split: step back to its first byte.
    let end = maxBytes - note.length
    while (end > 0 && (bytes[end] ?? 0) >> 6 === 0b10) end -= 1
    return bytes.toString('utf8', 0, end) + note
  }

  function redactStored(body: string, { secrets, paths, maxBytes, isRaw }: StoredRules): string {
    return cutToBytes(redactBody(storable(isRaw ? rewritten(body) : body), secrets, paths), maxBytes)
  }

  function cacheable(body: string, json: string, { secrets, paths, isRaw }: CacheRules): string | null {
    const text = isRaw ? rewritten(json) : json
    // A byte that is no UTF-8 has been decoded as U+FFFD (Encoding Standard, "UTF-8 decode").
    if (text.includes('\ufffd')) return null
    return redactBody(body, secrets, paths) === body && redactBody(text, secrets) === text ? text : null
  }

  function rewritten(json: string): string {
    return JSON.stringify(JSON.parse(json))
  }

  return {
    redactText,
    redactBody,
    redactStored,
    cacheable,
    storable,
    cutToBytes,
  }
}
