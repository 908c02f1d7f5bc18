/** How a process of ours begins and ends: errors as one clear line, exit codes, an orderly stop. */
import { isIntegrationsError } from '../core/errors.ts'

/** 1: bad input or a refusal. 2: Postgres or Temporal was not reached. */
const EXIT = { refused: 1, unreachable: 2 } as const

/** Runs `main`; whatever it throws ends the process with a message that helps. A stack only for what is no error of ours. */
export async function runProcess(main: () => Promise<void>): Promise<void> {
  try {
    await main()
  } catch (error) {
    const ours = isIntegrationsError(error)
    process.stderr.write(`${ours ? error.message : error instanceof Error ? error.stack : String(error)}\n`)
    process.exit(isIntegrationsError(error, 'backend_unreachable') ? EXIT.unreachable : EXIT.refused)
  }
}

/** Calls `stop` once: on SIGTERM, on SIGINT, and when the supervisor that started us has died. */
export function onStop(stop: () => void): void {
  let stopped = false
  const once = (): void => {
    if (stopped) return
    stopped = true
    stop()
  }
  process.on('SIGTERM', once)
  process.on('SIGINT', once)
  process.on('disconnect', once)
}
