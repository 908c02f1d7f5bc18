/** One command, run by the program on the worker's own object. Rule: docs/behaviour/commands-as-workflows.md. */
import type { Command } from 'commander'
import type { Integrations } from '../../create-integrations.ts'
import { redactText } from '../../framework/redaction.ts'
import type { CommandAnswer, CommandCall } from '../command-jobs.ts'
import { wordsOf } from './command-words.ts'
import { createFrame } from './create-frame.ts'
import type { FailureDocument } from './failure.ts'
import { failureOf, Refused } from './failure.ts'
import type { Prompts, Terminal, TextSources } from './frame.ts'
import { createProgram, runProgram } from './program.ts'
import { allowedVariables, refuseSecrets, secretsNamedBy, withoutSecrets } from './secrets-in-worker.ts'

/**
 * What a command has under way when it is cancelled, or its worker stops, may take so long to end: as long as what else an
 * activity runs. Rule: docs/behaviour/workers.md, "The end of a worker".
 */
const ENDING_MS = 30_000

/** Runs a command as a terminal would with `--json --no-interactive`. Never throws: a failure is an answer. */
export async function runInWorker(
  integrations: Integrations,
  { command, input, by, signal }: CommandCall,
): Promise<CommandAnswer> {
  const environment = allowedVariables(integrations.config.worker.command_environment, process.env)
  const { terminal, printed } = captured(environment)
  const program = { load: async () => leftOpen(integrations), terminal, signal, by, endingMs: ENDING_MS }
  const startedAtMs = performance.now()
  const answer = await answered()
  integrations.admin.logger.info(
    {
      event: 'command.ended',
      command,
      by,
      exit_code: answer.exitCode,
      duration_ms: Math.round(performance.now() - startedAtMs),
    },
    'a command has ended',
  )
  return answer

  async function answered(): Promise<CommandAnswer> {
    let words: readonly string[]
    let secrets: readonly string[]
    try {
      const declared = declaredAs(command, createProgram(createFrame(program), terminal))
      const fields = fieldsOf(input)
      refuseSecrets(command, fields, environment)
      words = wordsOf(declared, fields)
      secrets = secretsNamedBy(command, fields, environment)
    } catch (error) {
      const { exitCode, document } = failureOf(error)
      return { exitCode, document, notes: [] }
    }
    const exitCode = await runProgram(words, program)
    const clean = (text: string): string => redactText(text, secrets)
    const notes = printed.err.map((text) => clean(text.trimEnd()))
    const document = JSON.parse(printed.out, (_, value) =>
      typeof value === 'string' ? clean(value) : value,
    ) as unknown
    if (!isUnexpected(document)) return { exitCode, ...withoutSecrets(command, { document, notes }) }
    // Its words and its stack may hold anything, of any integration: they are for the log and for no history.
    const error = notes.join('\n')
    integrations.admin.logger.error({ event: 'command.failed', command, by, error }, 'a command has failed')
    return { exitCode, document: { error: withoutWords(document.error) }, notes: [] }
  }
}

function declaredAs(name: string, program: Command): Command {
  const found = program.commands.find((candidate) => candidate.name() === name)
  if (found === undefined)
    throw new Refused('usage', `There is no command "${name}". \`integrations --help\` lists them.`)
  return found
}

function fieldsOf(input: unknown): Readonly<Record<string, unknown>> {
  if (input === undefined || input === null) return {}
  if (typeof input !== 'object' || Array.isArray(input))
    throw new Refused(
      'usage',
      `The input is one JSON object, such as {"id":7}; a ${Array.isArray(input) ? 'list' : typeof input} was given.`,
    )
  return input as Record<string, unknown>
}

function isUnexpected(document: unknown): document is FailureDocument {
  return (document as Partial<FailureDocument> | null)?.error?.code === 'unexpected_error'
}

/** Its class and its code. */
function withoutWords({ code, message }: FailureDocument['error']): FailureDocument['error'] {
  const name = /^\w+(?=: )/.exec(message)?.[0] ?? 'Error'
  return { code, message: `${name}, which is not an error of ours: the worker's log has it, under command.failed.` }
}

/** The worker goes on with it. */
function leftOpen(integrations: Integrations): Integrations {
  return Object.assign(Object.create(integrations), { close: async () => {} }) as Integrations
}

function captured(environment: TextSources['environment']) {
  const printed = { out: '', err: [] as string[] }
  const terminal: Terminal = {
    out: (text) => {
      printed.out += text
    },
    err: (text) => void printed.err.push(text),
    isInteractive: false,
    columns: () => 80,
    prompts: NOBODY,
    sources: { environment, file: noFile, stdin: async () => '' },
  }
  return { terminal, printed }
}

const noFile = (): never => {
  throw new Error('a workflow reads no file of its worker.')
}
const nobody = async (): Promise<never> => {
  throw new Refused('confirmation_needed', 'Nobody is here to answer.')
}
const NOBODY: Prompts = { text: nobody, password: nobody, confirm: nobody }
