import { onTestFinished } from 'vitest'

/** The errors of timers and event handlers, which no promise carries, until the test ends. */
export function watchUncaught(): unknown[] {
  const uncaught: unknown[] = []
  const note = (error: unknown): void => void uncaught.push(error)
  process.on('uncaughtExceptionMonitor', note)
  onTestFinished(() => void process.off('uncaughtExceptionMonitor', note))
  return uncaught
}
