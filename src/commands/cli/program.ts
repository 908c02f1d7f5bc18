/** The `integrations` command. Each subcommand is a file of its own. */
import { Command, CommanderError } from 'commander'
import { packageVersion } from '../../framework/package-version.ts'
import type { AnyCommand } from '../command.ts'
import { TOPICS } from '../command.ts'
import { TABLE } from '../index.ts'
import { declare } from './command-line.ts'
import type { Frame, FrameOptions } from './create-frame.ts'
import { createFrame, jsonLine, withCommonOptions } from './create-frame.ts'
import { failureOf } from './failure.ts'
import { plainLines } from './plain.ts'
import type { Terminal } from './terminal.ts'

export type ProgramOptions = Omit<FrameOptions, 'onExitCode'>

/** Runs one command line. @returns the exit code */
export function runProgram(words: readonly string[], options: ProgramOptions): Promise<number> {
  // Known before the words are parsed: a word too many is a failure like any other.
  const json = words.slice(0, words.includes('--') ? words.indexOf('--') : undefined).includes('--json')
  return runInFrame({ ...options, json }, (frame) =>
    createProgram(frame, options.terminal).parseAsync(words, { from: 'user' }),
  )
}

/** Runs what stands in a frame, and prints its failure. @returns the exit code */
export async function runInFrame(options: ProgramOptions, work: (frame: Frame) => Promise<unknown>): Promise<number> {
  const { terminal, json = false } = options
  let exitCode = 0
  const frame = createFrame({
    ...options,
    onExitCode: (code) => {
      exitCode = code
    },
  })
  try {
    await work(frame)
    return exitCode
  } catch (error) {
    // Help and version.
    if (error instanceof CommanderError && error.exitCode === 0) return 0
    const failure = failureOf(error)
    if (json) terminal.out(jsonLine(failure.document))
    if (!json || failure.document.error.code === 'unexpected_error') terminal.err(`${plainLines(failure.text)}\n`)
    return failure.exitCode
  }
}

/** All commands, in the order of the help. They throw what goes wrong and never end the process. */
export function createProgram(frame: Frame, terminal: Terminal, table = TABLE): Command {
  const program = withCommonOptions(new Command('integrations'))
    .description('Operates the integrations of the host whose integrations.config.ts is here.')
    .version(packageVersion(), '--version', 'print the version')
    .addHelpText('after', HELP)
  for (const each of byTopic(table)) program.addCommand(declare(frame, each))
  for (const command of [program, ...program.commands])
    command
      .exitOverride()
      .showSuggestionAfterError()
      .configureHelp({ subcommandTerm: termOf })
      // Commander's error is thrown as well; runProgram() prints it.
      .configureOutput({ writeOut: terminal.out, writeErr: terminal.err, outputError: () => {} })
  return program
}

const HELP = `
Each command also goes by its name with "integrations:" before it.
The host's module is found by INTEGRATIONS_CONFIG, else it is integrations.config.ts, .js or .mjs here.
Exit codes: 0 done or nothing to do; 1 bad input, refused, or a part failed; 2 Postgres or Temporal not reached.`

/** The name and its arguments; every command has the same kind of alias, which the help names once. */
function termOf(command: Command): string {
  const args = command.registeredArguments.map((argument) =>
    argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
  )
  return [command.name(), ...args].join(' ')
}

/** In the order of the help. */
function byTopic(table: readonly AnyCommand[]): AnyCommand[] {
  return table.toSorted((a, b) => TOPICS.indexOf(a.topic) - TOPICS.indexOf(b.topic))
}
