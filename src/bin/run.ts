/** How a process of ours begins and ends: errors as one clear line, exit codes, an orderly stop. */
import { isIntegrationsError } from '../framework/errors.ts'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { redactLikely } from '../framework/redaction.ts'

/** 1: bad input, a refusal, or a fault of the host's code. 2: Postgres or Temporal was not reached, or Postgres was lost. */
const EXIT = { done: 0, refused: 1, faulty: 1, unreachable: 2 } as const
/** One Ctrl-C may arrive twice: from the terminal, and again from a wrapper (npm, tsx). */
const REPEATED_SIGNAL_MS = 1_000
/** 128 and the signal's number, as shells count. */
const EXIT_BY_SIGNAL = { SIGINT: 130, SIGTERM: 143 } as const

const SIGNALS = ['SIGTERM', 'SIGINT'] as const
/** Before onStop() nothing is in hand. Without a handler a process that is PID 1 would not hear the signal at all. */
const endAtOnce = (): never => process.exit(EXIT.done)

/**
 * Runs `main`; whatever it throws ends the process with a message that helps. A stack only for what is no error of ours. A
 * signal that comes before `main` has called {@link onStop} ends the process.
 */
export async function runProcess(main: () => Promise<void>): Promise<void> {
  for (const signal of SIGNALS) process.on(signal, endAtOnce)
  try {
    await main()
  } catch (error) {
    process.stderr.write(`${wordsOf(error)}\n`)
    process.exit(exitCodeOf(error))
  }
}

function wordsOf(error: unknown): string {
  if (isIntegrationsError(error)) return error.message
  const lost = lostDatabase(error)
  if (lost !== null) return `Postgres was lost (${lost}). \`integrations doctor\` says whether it is back.`
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

const exitCodeOf = (error: unknown): number =>
  isIntegrationsError(error, 'backend_unreachable') || lostDatabase(error) !== null ? EXIT.unreachable : EXIT.refused

/**
 * Takes the last steps of a process. Each is taken, whatever becomes of the ones before; one that fails has a line.
 *
 * @param failure why the process ends, if it was not asked to
 * @returns what to end the process with
 */
export async function lastSteps(
  logger: Logger,
  stopping: Stopping,
  { steps, failure }: { readonly steps: readonly (() => unknown)[]; readonly failure?: { readonly error: unknown } },
): Promise<number> {
  let exitCode = failure === undefined ? stopping.exitCode() : exitCodeOf(failure.error)
  for (const step of steps)
    try {
      await step()
    } catch (error) {
      exitCode ||= EXIT.faulty
      const fields = { event: 'process.end_failed', error: errorLine(error, 300) }
      logger.error(fields, 'a step of the end of the process failed; the others are taken')
    }
  return exitCode
}

interface Stopping {
  /** Whether the process has been asked to stop: then what has not begun does not begin. */
  isAsked(): boolean
  /** Resolves when it is. */
  readonly asked: Promise<void>
  /** What to end the process with once all has ended: 0, or 1 where a fault of the host's code made it stop. */
  exitCode(): number
}

/**
 * Calls `stop` once: on SIGTERM, on SIGINT, when the supervisor that started us has died, and on an unhandled rejection. A
 * second signal ends the process at once.
 *
 * An unhandled rejection comes from code that goes on beside its handler: nothing of ours is broken, so what is in hand
 * finishes or goes back first. After an uncaught exception the state is not known: the process ends with its line.
 * Rule: docs/behaviour/workers.md, "Uncaught errors".
 */
export function onStop(logger: Logger, stop: (why: string) => void): Stopping {
  let stoppedAtMs: number | null = null
  let exitCode: number = EXIT.done
  let isNow = (): void => {}
  const asked = new Promise<void>((resolve) => {
    isNow = resolve
  })
  const once = (why: string): void => {
    if (stoppedAtMs !== null) return
    stoppedAtMs = performance.now()
    stop(why)
    isNow()
  }
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (stoppedAtMs === null) return once(signal)
      if (performance.now() - stoppedAtMs < REPEATED_SIGNAL_MS) return
      logger.warn({ event: 'process.killed', signal }, 'asked to stop twice: the process ends at once')
      process.exit(EXIT_BY_SIGNAL[signal])
    })
    process.off(signal, endAtOnce)
  }
  process.on('disconnect', () => once('the supervisor has died'))
  process.on('unhandledRejection', (reason) => {
    exitCode = EXIT.faulty
    logger.error(faultOf('process.unhandled_rejection', reason), UNHANDLED)
    once('a promise was rejected, and nothing handled it')
  })
  process.on('uncaughtException', (error) => {
    logger.error(faultOf('process.uncaught_exception', error), UNCAUGHT)
    process.exit(EXIT.faulty)
  })
  return { isAsked: () => stoppedAtMs !== null, asked, exitCode: () => exitCode }
}

const UNHANDLED =
  'A promise was rejected, and nothing handled it; the process stops in order. Most often a provider or listener calls an async function without `await`: await it, or catch what it throws.'
const UNCAUGHT =
  'An exception was thrown where nothing catches it; the process ends. Most often a timer, stream or event listener of the host throws: catch it there.'

/** Of an error's text, which may be a whole answer. */
const MAX_READ = 20_000

function faultOf(event: string, error: unknown): Record<string, unknown> {
  const stack = error instanceof Error ? error.stack : undefined
  // Whole, and cut after that: half a credential would not be known.
  const line = redactLikely(errorLine(error, MAX_READ)).slice(0, 300)
  return { event, error: line, ...(stack === undefined ? {} : { stack: redactLikely(stack.slice(0, MAX_READ)) }) }
}
