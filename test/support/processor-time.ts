import { existsSync, readFileSync } from 'node:fs'

/**
 * How much work something is, in milliseconds of processor time: a machine that stands still, or does something else, adds
 * nothing. Where the system tells a thread its own time (Linux), it is the calling thread's alone; elsewhere the process's other
 * threads add theirs.
 */
export function processorMs(work: () => void): number {
  const before = spentMs()
  work()
  return spentMs() - before
}

const OF_THE_THREAD = '/proc/thread-self/schedstat'

function spentMs(): number {
  if (existsSync(OF_THE_THREAD)) {
    const [nanoseconds] = readFileSync(OF_THE_THREAD, 'utf8').split(' ')
    return Number(nanoseconds) / 1_000_000
  }
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
