import { existsSync, readFileSync } from 'node:fs'

/**
 * How much work something is, in milliseconds of processor time: a machine that stands still, or does something else, adds
 * nothing. Where the system tells a thread its own time (Linux), it is the calling thread's alone; elsewhere the process's other
 * threads add theirs.
 */
export function processorMs(work: () => void, { ofTheThread = OF_THE_THREAD } = {}): number {
  const before = spentMs(ofTheThread)
  work()
  return spentMs(ofTheThread) - before
}

const OF_THE_THREAD = '/proc/thread-self/schedstat'

function spentMs(ofTheThread: string): number {
  if (existsSync(ofTheThread)) {
    const nanoseconds = Number(readFileSync(ofTheThread, 'utf8').split(' ')[0])
    // A sandbox has the file and counts nothing; a thread that reads it has run.
    if (nanoseconds > 0) return nanoseconds / 1_000_000
  }
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
