/** The `integrations` command line of this process. */
import type { LoadIntegrations } from '../commands/cli/create-frame.ts'
import { runProgram } from '../commands/cli/program.ts'
import { processTerminal } from '../commands/cli/terminal.ts'
import { importModule } from './host.ts'
import { playHost } from './play-host.ts'
import { serveDashboard } from './serve-dashboard.ts'

/**
 * Runs the words of this process, and ends it.
 *
 * @param load called only by a command that needs the host
 */
export async function runCommandLine(load: LoadIntegrations): Promise<never> {
  // Read by the host's default logger: its lines are none of the command's result.
  process.env.LOG_STREAM ||= 'stderr'
  process.env.LOG_LEVEL ||= 'warn'

  const interrupt = new AbortController()
  process.on('SIGINT', () => {
    // A person who asks twice does not want to wait.
    if (interrupt.signal.aborted) process.exit(130)
    interrupt.abort()
  })
  // SIGHUP: the terminal is gone.
  for (const name of ['SIGTERM', 'SIGHUP'] as const) process.on(name, () => interrupt.abort())

  const stdout = ownStdout()
  const exitCode = await runProgram(process.argv.slice(2), {
    load,
    terminal: processTerminal(stdout.write),
    signal: interrupt.signal,
    serve: serveDashboard,
    playHost,
    simulation: {
      readModule: importModule,
      // Loaded once it is asked for: it brings a database.
      search: async (...given) => (await import('../testing/simulation/seed-search.ts')).search(...given),
    },
  })
  await stdout.flushed()
  process.exit(exitCode)
}

interface OwnStdout {
  readonly write: (text: string) => void
  /** Resolves when all that was written has been handed over. */
  flushed(): Promise<void>
}

/**
 * Keeps stdout for the command's result alone: from now on only the returned `write` reaches it. What the host's code prints
 * (`console.log` as its module loads) goes to stderr. A reader that goes away (`integrations list | head -1`) does not stop the
 * command.
 */
function ownStdout(): OwnStdout {
  const write = process.stdout.write.bind(process.stdout)
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write
  let isGone = false
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A terminal that is gone answers EIO.
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error
      isGone = stream === process.stdout || isGone
    })
  return {
    write: (text) => {
      if (!isGone) write(text)
    },
    flushed: () =>
      new Promise((resolve) => {
        if (isGone) resolve()
        else write('', () => resolve())
      }),
  }
}
