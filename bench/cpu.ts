/** Processor time of everything that this process has started, from the operating system. */
import { readdirSync, readFileSync } from 'node:fs'

/** Linux' USER_HZ, which is 100 everywhere: proc(5). */
const TICKS_PER_SECOND = 100

interface Process {
  readonly parent: number
  readonly ticks: number
}

/** In milliseconds, of all descendants but this process; of those that have ended, too. */
export function cpuOfDescendants(): number {
  const processes = new Map(readdirSync('/proc').flatMap((name) => entryOf(Number(name))))
  let ticks = 0
  for (const [pid, { ticks: own }] of processes) if (isBelow(pid, processes)) ticks += own
  return (ticks / TICKS_PER_SECOND) * 1_000
}

function isBelow(pid: number, processes: ReadonlyMap<number, Process>): boolean {
  let at = processes.get(pid)?.parent
  for (; at !== undefined && at > 1; at = processes.get(at)?.parent) if (at === process.pid) return true
  return false
}

function entryOf(pid: number): [number, Process][] {
  if (!Number.isInteger(pid)) return []
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // Behind the name, which may hold anything: state, parent, and the 14th to 17th of all fields.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [user = 0, system = 0, childrenUser = 0, childrenSystem = 0] = fields.slice(11, 15).map(Number)
    return [[pid, { parent: Number(fields[1]), ticks: user + system + childrenUser + childrenSystem }]]
  } catch {
    // It has ended meanwhile.
    return []
  }
}
