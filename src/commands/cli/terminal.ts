/** Where a command reads and writes, and the terminal of a real process. */
import { readFileSync } from 'node:fs'
import { confirm, password, text } from '@clack/prompts'
import { Interrupted } from './failure.ts'

/** Questions to the person at the terminal. Each throws {@link Interrupted} when it is broken off. */
export interface Prompts {
  /** A line of text; `check` says what is wrong with it. */
  text(
    question: string,
    options?: { initial?: string; check?: (answer: string) => string | undefined },
  ): Promise<string>
  /** As `text()`, unseen. */
  password(question: string, options?: { check?: (answer: string) => string | undefined }): Promise<string>
  confirm(question: string, options?: { initial?: boolean }): Promise<boolean>
}

/** Where a command reads and writes. Tests give their own. */
export interface Terminal {
  /** The result, and nothing else. */
  readonly out: (text: string) => void
  /** Progress, warnings, prompts, errors. */
  readonly err: (text: string) => void
  /** No prompts, no live progress: no TTY, `CI`, or `--no-interactive`. */
  readonly isInteractive: boolean
  /** Characters in a line of what `err` writes to. */
  readonly columns: () => number
  /** Used only where `isInteractive`. */
  readonly prompts: Prompts
  /** What a value may be read from instead of the command line. */
  readonly sources: TextSources
}

export interface TextSources {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The text of a file. */
  readonly file: (path: string) => string
  /** All of stdin. */
  readonly stdin: () => Promise<string>
}

/** Of a terminal that does not say. */
const USUAL_COLUMNS = 80

/** The terminal of this process. Questions go to stderr: stdout is the result's. */
export function processTerminal(out: (text: string) => void): Terminal {
  const { CI } = process.env
  const isCi = CI !== undefined && CI !== '' && CI !== 'false' && CI !== '0'
  return {
    out,
    err: (line) => void process.stderr.write(line),
    isInteractive: process.stdin.isTTY === true && process.stderr.isTTY === true && !isCi,
    columns: () => process.stderr.columns || USUAL_COLUMNS,
    prompts: clackPrompts(),
    sources: processSources(async () => {
      const chunks: Buffer[] = []
      for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
      return Buffer.concat(chunks).toString('utf8')
    }),
  }
}

/** What the user of this process may read. */
export function processSources(stdin: () => Promise<string>): TextSources {
  return { environment: process.env, file: (path) => readFileSync(path, 'utf8'), stdin }
}

function clackPrompts(): Prompts {
  const output = process.stderr
  const answered = <T>(answer: T): Exclude<T, symbol> => {
    if (typeof answer === 'symbol') throw new Interrupted()
    return answer as Exclude<T, symbol>
  }
  const validate = (check: ((answer: string) => string | undefined) | undefined) =>
    check === undefined ? {} : { validate: (answer: string | undefined) => check(answer ?? '') }
  return {
    text: async (message, { initial, check } = {}) =>
      answered(
        await text({
          message,
          output,
          ...(initial === undefined ? {} : { initialValue: initial }),
          ...validate(check),
        }),
      ) ?? '',
    password: async (message, { check } = {}) =>
      answered(await password({ message, output, ...validate(check) })) ?? '',
    confirm: async (message, { initial = false } = {}) =>
      answered(await confirm({ message, output, initialValue: initial })),
  }
}
