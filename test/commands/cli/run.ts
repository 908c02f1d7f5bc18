/** Runs one command line inside the test's own process, on an Integrations object of the test's. */

import { runProgram } from '../../../src/commands/cli/program.ts'
import type { Prompts, Terminal } from '../../../src/commands/cli/terminal.ts'
import { processSources } from '../../../src/commands/cli/terminal.ts'
import { leftOpen } from '../../../src/commands/cli/worker-command.ts'
import type { PlayHost, Simulation } from '../../../src/commands/command.ts'
import type { Integrations } from '../../../src/create-integrations.ts'

export interface Ran {
  readonly exitCode: number
  readonly out: string
  readonly err: string
  /** What `--json` printed: stdout as one JSON document. */
  json(): never
}

export interface RunOptions {
  readonly stdin?: string | (() => Promise<string>)
  readonly signal?: AbortSignal
  /** Answers by a part of their question; with them somebody sits at the terminal. A question without an answer throws. */
  readonly answers?: Readonly<Record<string, string | boolean>>
  /** The questions asked are added here. */
  readonly asked?: string[]
  readonly playHost?: PlayHost
  readonly simulation?: Simulation
}

/** The object is not closed: the test goes on with it. */
export async function runCommand(
  integrations: Integrations | (() => Promise<Integrations>),
  words: readonly string[],
  options: RunOptions = {},
): Promise<Ran> {
  const { stdin = '' } = options
  let out = ''
  let err = ''
  const terminal: Terminal = {
    out: (text) => {
      out += text
    },
    err: (text) => {
      err += text
    },
    isInteractive: options.answers !== undefined,
    columns: () => 80,
    prompts: scripted(options),
    sources: processSources(typeof stdin === 'function' ? stdin : async () => stdin),
  }
  const load = typeof integrations === 'function' ? integrations : async () => leftOpen(integrations)
  const exitCode = await runProgram(words, {
    load,
    terminal,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    ...(options.playHost === undefined ? {} : { playHost: options.playHost }),
    ...(options.simulation === undefined ? {} : { simulation: options.simulation }),
  })
  return { exitCode, out, err, json: () => JSON.parse(out) as never }
}

function scripted({ answers = {}, asked = [] }: RunOptions): Prompts {
  const answer = (question: string): string | boolean => {
    asked.push(question)
    const found = Object.entries(answers).find(([part]) => question.includes(part))
    if (found === undefined) throw new Error(`no answer is scripted for: ${question}`)
    return found[1]
  }
  const checked = (question: string, check?: (answer: string) => string | undefined): string => {
    const text = String(answer(question))
    const wrong = check?.(text)
    if (wrong !== undefined) throw new Error(`${question}: ${wrong}`)
    return text
  }
  return {
    text: async (question, { check } = {}) => checked(question, check),
    password: async (question, { check } = {}) => checked(question, check),
    confirm: async (question) => answer(question) === true,
  }
}
