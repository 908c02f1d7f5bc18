/** The command lines in the pages' `sh` blocks, as words: what a shell would make of them, as far as the pages use it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface PageCommand {
  readonly page: string
  readonly line: number
  /** Without the variables before it, redirections, and what stands behind a pipe: those are commands of their own. */
  readonly words: readonly string[]
}

/** Also inside of lists. */
const FENCE = /^( *)```sh\b[^\n]*\n([\s\S]*?)^\1```/gm
const HEREDOC = /<<-?'?(\w+)'?\n[\s\S]*?\n\s*\1$/gm
const VARIABLE = /^\w+=/
/** A word, with its quotes; an operator; a comment; a blank. Substitutions have one level, which is all that the pages have. */
const TOKEN =
  /#[^\n]*|\d?[<>]+&?\d?(?!\()|[{}](?=\s|$)|(?:[^\s"'$#;&|<>()\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*'|\$\([^)]*\)|\$(?!\()|(?<=\S)#)+|<\([^)]*\)|&&|\|\||[;&|()\n]|\s/gs

export function commandsOf(root: string, page: string): PageCommand[] {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(FENCE)].flatMap(({ 2: block = '', index }) => {
    const first = text.slice(0, index).split('\n').length + 1
    return commandsIn(block).map(({ line, words }) => ({ page, line: first + line, words }))
  })
}

/** @returns line: from 0 */
export function commandsIn(block: string): { line: number; words: string[] }[] {
  const found: { line: number; words: string[] }[] = []
  // As long as before, so that lines keep their numbers.
  const script = block.replace(HEREDOC, (document) => document.replace(/[^\n]/g, ' ')).replace(/\\\n/g, '  ')
  let words: string[] = []
  let isTarget = false
  let line = 0
  const end = (): void => {
    while (words[0] !== undefined && VARIABLE.test(words[0])) words.shift()
    if (words.length > 0) found.push({ line, words })
    words = []
  }
  for (const { 0: token, index } of script.matchAll(TOKEN)) {
    if (token.startsWith('#') || (/^\s$/.test(token) && token !== '\n')) continue
    for (const [, inner = ''] of token.matchAll(/[$<]\(([^)]*)\)/g))
      found.push(...commandsIn(inner).map((one) => ({ ...one, line: lineAt(script, index) })))
    if (/^(&&|\|\||[;&|(){}\n])$/.test(token)) end()
    else if (/^\d?[<>]+&?\d?$/.test(token)) isTarget = !/&\d$/.test(token)
    else if (isTarget) isTarget = false
    else if (!token.startsWith('<(')) {
      line = words.length === 0 ? lineAt(script, index) : line
      words.push(unquoted(token))
    }
  }
  end()
  return found
}

function lineAt(script: string, index: number): number {
  return script.slice(0, index).split('\n').length - 1
}

function unquoted(token: string): string {
  return token.replace(
    /"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/gs,
    (_, double?: string, single?: string, one?: string) => double?.replace(/\\(["\\$`])/g, '$1') ?? single ?? one ?? '',
  )
}
