/** JSON with a line for each value. Nothing of it is parsed: a number of 20 digits, a repeated key and an escape stay as they were written. */
import { isJsonText } from '../../../framework/json.ts'

const STEP = '  '
/** Deeper levels are not moved further to the right. */
const MAX_INDENT = 40

/** @returns null: it is no JSON */
export function prettyJson(text: string): string | null {
  if (!isJsonText(text)) return null
  const parts: string[] = []
  let depth = 0
  let before = ''
  const newLine = () => parts.push('\n', STEP.repeat(Math.min(depth, MAX_INDENT)))
  for (const token of tokensOf(text)) {
    const isEnd = token === '}' || token === ']'
    if (isEnd) depth -= 1
    const isEmpty = isEnd && (before === '{' || before === '[')
    if (before === ',' || (isEnd && !isEmpty) || (!isEnd && (before === '{' || before === '['))) newLine()
    parts.push(token === ':' ? ': ' : token)
    if (token === '{' || token === '[') depth += 1
    before = token
  }
  return parts.join('')
}

/** Strings are scanned: a pattern takes stack for each character or escape of one, and fails at some millions. */
function* tokensOf(json: string): Generator<string> {
  const pattern = /["{}[\],:]|[^\s{}[\],:"]+/g
  for (let found = pattern.exec(json); found !== null; found = pattern.exec(json)) {
    const [token] = found
    if (token !== '"') {
      yield token
      continue
    }
    let end = found.index + 1
    while (end < json.length && json[end] !== '"') end += json[end] === '\\' ? 2 : 1
    pattern.lastIndex = end + 1
    yield json.slice(found.index, end + 1)
  }
}
