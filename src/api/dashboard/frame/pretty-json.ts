/** JSON with a line for each value. Nothing of it is parsed: a number of 20 digits, a repeated key and an escape stay as they were written. */
import { isJsonText } from '../../../framework/json.ts'

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs
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
  for (const [token] of text.matchAll(TOKEN)) {
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
