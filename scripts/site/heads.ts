/** Only what names a column is a head of a table: a screen reader says it with each cell. */
interface Token {
  readonly type: string
  readonly content: string
  tag: string
}

/** Markdown has no table without a row of heads: empty ones become cells, and a row of nothing but them goes. */
export function namedHeads(state: { tokens: Token[] }): void {
  const { tokens } = state
  for (const [at, token] of tokens.entries()) {
    if (token.type !== 'th_open' || tokens[at + 1]?.content !== '') continue
    for (const each of [token, tokens[at + 2]]) if (each !== undefined) each.tag = 'td'
  }
  for (let at = tokens.length - 1; at >= 0; at--) {
    if (tokens[at]?.type !== 'thead_open') continue
    const end = tokens.findIndex(({ type }, index) => index > at && type === 'thead_close')
    if (tokens.slice(at, end).every(({ tag }) => tag !== 'th')) tokens.splice(at, end - at + 1)
  }
}
