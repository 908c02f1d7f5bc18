/** Commands whose work a worker does. Rule: docs/commands.md, "Work of a worker". */
import type { HostlessContext } from '../command.ts'

const PATIENCE_MS = 10_000

/** Waits for a worker, for as long as it takes, and says so when that is long: there may be none. */
export async function byWorker<Result>({ progress, warn }: HostlessContext, work: Promise<Result>): Promise<Result> {
  progress('Waiting for a worker ...')
  const timer = setTimeout(
    () => warn('Still waiting: the work takes long, or no worker runs. `integrations doctor` says which.'),
    PATIENCE_MS,
  )
  try {
    return await work
  } finally {
    clearTimeout(timer)
  }
}
