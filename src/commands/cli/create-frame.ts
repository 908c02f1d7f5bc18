/** The frame that the commands of one process stand in: their host, their terminal, their end. */
import { hostname, userInfo } from 'node:os'
import { Command } from 'commander'
import type { Integrations } from '../../create-integrations.ts'
import type {
  CommandContext,
  Command as Definition,
  HostlessContext,
  PlayHost,
  ServeDashboard,
  Simulation,
} from '../command.ts'
import { Interrupted } from './failure.ts'
import { plainLines } from './plain.ts'
import type { Terminal } from './terminal.ts'

/** What a command works with; loaded only when one runs, so that `--help` needs no database. */
export type LoadIntegrations = () => Promise<Integrations>

export interface FrameOptions {
  readonly load: LoadIntegrations
  readonly terminal: Terminal
  /** Aborted by Ctrl-C. */
  readonly signal?: AbortSignal
  /** Who is asking; default `cli:<user>`. */
  readonly by?: string
  /** From where; default this host. */
  readonly from?: string
  /** Whether the document is printed in any case; default: where `--json` asks for it. */
  readonly json?: boolean
  /**
   * How long a command that does not watch the signal may go on after it, in milliseconds; what it ends with by then is its
   * end. Default 0: at Ctrl-C the process ends, and the work with it.
   */
  readonly endingMs?: number
  /** How the dashboard is served; without it that command is refused. */
  readonly serve?: ServeDashboard
  /** How a rehearsal is played; without it that command is refused. */
  readonly playHost?: PlayHost
  /** How scenarios are played; without it that command is refused. */
  readonly simulation?: Simulation
  /** Told when a command ends with another exit code than 0. */
  readonly onExitCode?: (exitCode: number) => void
}

/** What a command has to say. */
export interface Outcome {
  /** What `--json` prints. Column names in snake_case. */
  readonly document: unknown
  /** What it prints otherwise. */
  readonly text: string
  /** 1 when a part failed; default 0. */
  readonly exitCode?: 0 | 1
}

/** The command as it was typed, which has the common options; undefined in a worker. */
type Typed = Command | undefined

export type Frame = ReturnType<typeof createFrame>

export function createFrame({
  load,
  terminal,
  signal = new AbortController().signal,
  by = `cli:${userName()}`,
  from = hostname(),
  endingMs = 0,
  ...options
}: FrameOptions) {
  const contextOf = (command: Typed): HostlessContext => {
    const { json = options.json ?? false, interactive = true } =
      command?.optsWithGlobals<{ json?: boolean; interactive?: boolean }>() ?? {}
    const isInteractive = terminal.isInteractive && interactive
    return {
      terminal: { ...terminal, isInteractive },
      program: command?.parent ?? undefined,
      json,
      by,
      from,
      signal,
      simulation: options.simulation,
      progress: (text) => isInteractive && terminal.err(`${plainLines(text)}\n`),
      warn: (text) => terminal.err(`${plainLines(text)}\n`),
    }
  }
  const tell = ({ document, text, exitCode = 0 }: Outcome, json: boolean): void => {
    if (json) terminal.out(jsonLine(document))
    else if (text !== '') terminal.out(`${plainLines(text)}\n`)
    if (exitCode !== 0) options.onExitCode?.(exitCode)
  }

  return {
    /** A command under `name` and `integrations:name`, with `--json`, and with these examples in its help. */
    command: (name: string, summary: string, examples: readonly string[]): Command =>
      withCommonOptions(new Command(name))
        .alias(`integrations:${name}`)
        .description(summary)
        .addHelpText('after', `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`),

    async run(
      typed: Typed,
      work: (context: CommandContext) => Promise<Outcome>,
      { needs = 'tables', stopsItself }: Pick<Definition, 'needs' | 'stopsItself'>,
    ): Promise<void> {
      const context = contextOf(typed)
      const integrations = await unlessInterrupted(signal, load())
      let outcome: Outcome
      try {
        if (needs === 'tables') await unlessInterrupted(signal, integrations.ready())
        // Work that may go on after the signal must not begin after it.
        if (signal.aborted) throw new Interrupted()
        const graceMs = Math.max(endingMs, stopsItself ? STOPPING_MS : 0)
        outcome = await unlessInterrupted(
          signal,
          work({ ...withHost(context, integrations), serve: options.serve, playHost: options.playHost }),
          graceMs,
        )
      } finally {
        await integrations.close()
      }
      // After the host is closed: what goes wrong there must not come as a second document.
      tell(outcome, context.json)
    },

    /** A command that neither needs nor loads the host. */
    async runWithoutHost(typed: Typed, work: (context: HostlessContext) => Promise<Outcome>): Promise<void> {
      const context = contextOf(typed)
      tell(await unlessInterrupted(signal, work(context)), context.json)
    },
  }
}

/** The context of a caller that no token limits. */
function withHost(context: HostlessContext, integrations: Integrations): CommandContext {
  const { by: token, from } = context
  return {
    ...context,
    integrations,
    limits: {},
    note: (id, action, target = `integration:${id}`, detail) =>
      integrations.admin.operator.note(id, { token, action, target, from, detail }),
  }
}

/** On the program as well as on each command, so that they may stand before or after the command's name. */
export function withCommonOptions(command: Command): Command {
  return command
    .option('--json', 'print one JSON document on stdout, also for a failure')
    .option('--no-interactive', 'ask nothing and show no progress')
}

/** One line; what a terminal would obey is escaped, the value stays. */
export function jsonLine(document: unknown): string {
  const text = JSON.stringify(document)
  // JSON.stringify() escapes those below U+0020.
  return `${text.replace(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`)}\n`
}

/** How long a command that stops itself may take for it. */
const STOPPING_MS = 5_000

/** The work, or {@link Interrupted} as soon as (and `graceMs` after) the signal says so. Late results are dropped. */
export async function unlessInterrupted<T>(signal: AbortSignal, work: Promise<T>, graceMs = 0): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  let abort = (): void => {}
  const aborted = new Promise<never>((_, reject) => {
    abort = () => {
      timer = setTimeout(() => reject(new Interrupted()), graceMs)
    }
  })
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
    clearTimeout(timer)
  }
}

/** A container may run us as a user that has no name. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 'unknown')
  }
}
