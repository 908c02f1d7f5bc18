/**
 * A tutorial as the steps that its reader takes, in the page's order:
 *
 * | block | is |
 * | --- | --- |
 * | `ts` that begins with `// path/of/file.ts` | a file that the reader writes |
 * | `sh` | commands that the reader runs, all in one terminal |
 * | `text` behind `sh` | what the commands print |
 *
 * In what is printed, `…` stands for any text of one line, and a line that is only `…` for any lines. How many blanks there are is all the same.
 */
export type Step =
  | { readonly kind: 'file'; readonly line: number; readonly path: string; readonly text: string }
  | { readonly kind: 'commands'; readonly line: number; readonly text: string; readonly prints: string | null }

const FENCE = /^```(\w*)[^\n]*\n([\s\S]*?)^```$/gm
const FILE_NAME = /^\/\/ (\S+\.ts)\n/
const PLACEHOLDER = '…'

/** @throws for a `text` block that is not behind `sh`: it would not be compared with anything */
export function stepsOf(page: string): Step[] {
  const steps: Step[] = []
  for (const { 1: language, 2: text = '', index } of page.matchAll(FENCE)) {
    const line = page.slice(0, index).split('\n').length
    const path = FILE_NAME.exec(text)?.[1]
    if (language === 'ts' && path !== undefined) steps.push({ kind: 'file', line, path, text })
    if (language === 'sh') steps.push({ kind: 'commands', line, text, prints: null })
    if (language !== 'text') continue
    const last = steps.at(-1)
    if (last?.kind !== 'commands' || last.prints !== null)
      throw new Error(`line ${line}: a block of text must stand behind the commands that print it`)
    steps[steps.length - 1] = { ...last, prints: text }
  }
  return steps
}

/** What a page shows, as a pattern of what is printed. */
export function patternOf(prints: string): RegExp {
  const lines = prints.trimEnd().split('\n')
  const patterns = lines.map((line) =>
    line.trim() === PLACEHOLDER
      ? '(?:[^\\n]*\\n)*?'
      : `${line.trim().split(PLACEHOLDER).map(literally).join('[^\\n]*')}\\n`,
  )
  return new RegExp(`^${patterns.join('')}$`)
}

/** As {@link patternOf} takes it: blanks at the ends of lines and empty lines at both ends are nothing. */
export function settled(printed: string): string {
  const lines = printed.split('\n').map((line) => blanks(line).trim())
  return `${lines.join('\n').replace(/^\n+|\n+$/g, '')}\n`
}

function literally(text: string): string {
  return blanks(text).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

/** Widths of tables follow what is in them. */
function blanks(text: string): string {
  return text.replace(/[ \t]+/g, ' ').replace(/─{2,}/g, '─')
}
