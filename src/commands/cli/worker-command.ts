/** One command, run by the program on the worker's own object. Rule: docs/behaviour/commands-as-workflows.md. */
import type { Integrations } from '../../create-integrations.ts'
import { redactText } from '../../framework/redaction.ts'
import type { AnyCommand } from '../command.ts'
import type { CommandAnswer, CommandCall } from '../command-jobs.ts'
import { openFields } from '../fields.ts'
import { TABLE } from '../index.ts'
import { Refused } from '../refused.ts'
import { run as runDefinition } from './command-line.ts'
import type { Frame } from './create-frame.ts'
import type { FailureDocument } from './failure.ts'
import { failureOf } from './failure.ts'
import { runInFrame } from './program.ts'
import { allowedVariables, refuseSecrets, secretsNamedBy, withoutSecrets } from './secrets-in-worker.ts'
import type { Prompts, Terminal, TextSources } from './terminal.ts'

type JsonFields = Readonly<Record<string, unknown>>

/**
 * Time for a command's open work to end when the command is cancelled, or its worker stops: the same as for other work of an
 * activity. Rule: docs/behaviour/workers.md, "The end of a worker".
 */
const ENDING_MS = 30_000

/** Runs a command as a terminal would with `--json --no-interactive`. Never throws: a failure is an answer. */
export async function runInWorker(
  integrations: Integrations,
  { command, input, by, signal }: CommandCall,
  table: readonly AnyCommand[] = TABLE,
): Promise<CommandAnswer> {
  const environment = allowedVariables(integrations.config.worker.command_environment, process.env)
  const { terminal, printed } = captured(environment)
  const program = {
    load: async () => leftOpen(integrations),
    terminal,
    signal,
    by,
    from: by,
    json: true,
    endingMs: ENDING_MS,
  }
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
    let secrets: readonly string[]
    let work: (frame: Frame) => Promise<unknown>
    try {
      const fields = fieldsOf(input)
      refuseSecrets(command, fields, environment)
      secrets = secretsNamedBy(command, fields, environment)
      work = workOf(table, command, fields)
    } catch (error) {
      const { exitCode, document } = failureOf(error)
      return { exitCode, document, notes: [] }
    }
    const exitCode = await runInFrame(program, work)
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

/** @throws Refused for a name or a field that is not known */
function workOf(table: readonly AnyCommand[], name: string, given: JsonFields): (frame: Frame) => Promise<unknown> {
  const definition = table.find((each) => each.name === name)
  if (definition === undefined)
    throw new Refused('usage', `There is no command "${name}". \`integrations --help\` lists them.`)
  const { yes: isSure, ...input } = inputOf(definition, given)
  return (frame) => runDefinition(frame, definition, { given: input, isSure: isSure === true })
}

/** A word stands for a value here, too: who types an id may put it in quotes. */
function inputOf(definition: AnyCommand, given: JsonFields): Record<string, unknown> {
  const { name, fields } = definition
  const names = [...Object.keys(openFields(fields)), ...('confirm' in definition ? ['yes'] : [])]
  const unknown = Object.keys(given).find((field) => !names.includes(field))
  if (unknown !== undefined) {
    if (fields[unknown]?.isForTerminals)
      throw new Refused(
        'usage',
        `"${unknown}" is for terminals: a workflow's result is the document of --json, and no one watches it.`,
      )
    const allowed = names.length === 0 ? 'no input' : names.join(', ')
    throw new Refused('usage', `${name} takes ${allowed}; "${unknown}" was given.`)
  }
  return Object.fromEntries(
    Object.entries(given).map(([field, value]) => {
      const { read = (word: string): unknown => word, schema, isList } = fields[field] ?? {}
      const asValue = (each: unknown): unknown => {
        if (typeof each === 'string') return read(each)
        // A name such as 2031.
        return typeof each === 'number' && schema?.safeParse(String(each)).success === true ? String(each) : each
      }
      if (!isList) return [field, asValue(value)]
      return [field, Array.isArray(value) ? value.map(asValue) : typeof value === 'object' ? value : [asValue(value)]]
    }),
  )
}

function fieldsOf(input: unknown): JsonFields {
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

/** The object as a command may have it, which closes it at its end. */
export function leftOpen(integrations: Integrations): Integrations {
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
const refusePrompt = async (): Promise<never> => {
  throw new Refused('confirmation_needed', 'No one is here to answer.')
}
const NOBODY: Prompts = { text: refusePrompt, password: refusePrompt, confirm: refusePrompt }
