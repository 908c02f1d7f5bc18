/**
 * One `npm start` per data folder: `running.json` says who runs and where it answers.
 *
 * A second start beside a running one is told its URLs, and which of its processes have ended. After a `kill -9` of the supervisor the
 * next start ends the recorded orphans, each only after its start time has shown that the pid is still the same process, and takes over.
 */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessIdentity } from './processes.ts'
import { endProcess, identifyProcess, isRunning } from './processes.ts'

const FILE = 'running.json'
const MODE = 0o600 // the database's URL carries a password

export interface RecordedChild extends ProcessIdentity {
  readonly name: string
  /** What asks it to end. Default SIGTERM; Postgres needs SIGINT, its SIGTERM waits for clients. */
  readonly stopSignal?: NodeJS.Signals
}

export interface RunningState {
  readonly supervisor: ProcessIdentity
  readonly children: readonly RecordedChild[]
  /** Empty while it is still starting. */
  readonly urls: Readonly<Record<string, string>>
  /** What a command needs to work on the same tables and server: dev/cli.ts. Empty while it is still starting. */
  readonly environment: Readonly<Record<string, string>>
}

export interface RunLock {
  /** Recorded as soon as it runs: what is not recorded can't be ended after a `kill -9`. */
  addChild(child: { name: string; pid: number; stopSignal?: NodeJS.Signals }): void
  removeChild(pid: number): void
  setUp(up: Pick<RunningState, 'urls' | 'environment'>): void
  release(): void
}

export type LockOutcome =
  | {
      readonly kind: 'running'
      readonly pid: number
      /** Empty while it is still starting. */
      readonly urls: Readonly<Record<string, string>>
      /** Children that have ended and are not started again. */
      readonly ended: readonly RecordedChild[]
    }
  | { readonly kind: 'acquired'; readonly lock: RunLock; readonly ended: readonly string[] }

/** Takes the folder for this process, after ending what a killed supervisor left behind. */
export async function acquireRunLock(options: { folder: string; log?: (line: string) => void }): Promise<LockOutcome> {
  const path = join(options.folder, FILE)
  const log = options.log ?? (() => {})
  mkdirSync(options.folder, { recursive: true })
  const self = identifyProcess(process.pid)
  if (self === null) throw new Error('The start time of this process can not be read (/proc or ps is needed).')

  let state: RunningState = { supervisor: self, children: [], urls: {}, environment: {} }
  const ended: string[] = []
  while (!createExclusively(path, state)) {
    const found = read(path)
    if (found === null) continue // released meanwhile
    if (found.state !== null && isRunning(found.state.supervisor)) {
      const { supervisor, urls, children } = found.state
      return { kind: 'running', pid: supervisor.pid, urls, ended: children.filter((child) => !isRunning(child)) }
    }
    // The orphans go first: were we killed between the two, the file must still name them.
    for (const orphan of [...(found.state?.children ?? [])].reverse()) {
      if (!isRunning(orphan)) continue
      log(`ending ${orphan.name} (pid ${orphan.pid}), left behind by a killed start`)
      if (!(await endProcess(orphan, { signal: orphan.stopSignal ?? 'SIGTERM', group: true }))) {
        throw new Error(
          `${orphan.name} (pid ${orphan.pid}) of an earlier start can't be ended. End it and start again.`,
        )
      }
      ended.push(orphan.name)
    }
    removeIfStill(path, found.text)
  }

  function update(change: Partial<RunningState>) {
    state = { ...state, ...change }
    const next = `${path}.${process.pid}.tmp`
    writeFileSync(next, JSON.stringify(state, null, 2), { mode: MODE })
    renameSync(next, path)
  }
  return {
    kind: 'acquired',
    ended,
    lock: {
      addChild({ pid, ...child }) {
        const identity = identifyProcess(pid)
        if (identity !== null) update({ children: [...state.children, { ...child, ...identity }] })
      },
      removeChild: (pid) => update({ children: state.children.filter((child) => child.pid !== pid) }),
      setUp: update,
      release() {
        const holder = read(path)?.state?.supervisor
        if (holder?.pid === self.pid && holder.startedAt === self.startedAt) rmSync(path, { force: true })
      },
    },
  }
}

/** A hard link is made or refused as one step, and the file is whole from its first moment. */
function createExclusively(path: string, state: RunningState): boolean {
  const temporary = `${path}.${process.pid}.tmp`
  writeFileSync(temporary, JSON.stringify(state, null, 2), { mode: MODE })
  try {
    linkSync(temporary, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(temporary, { force: true })
  }
}

/** Two starts may both find the stale file; the slower one must not remove the file that the faster one has just made. */
function removeIfStill(path: string, text: string): void {
  const aside = `${path}.${process.pid}.stale`
  try {
    renameSync(path, aside)
  } catch {
    return
  }
  if (readFileSync(aside, 'utf8') !== text) {
    try {
      linkSync(aside, path)
    } catch {
      // A third one has it by now.
    }
  }
  rmSync(aside, { force: true })
}

/** What runs on the folder; null when nothing does. */
export function runningOn(folder: string): RunningState | null {
  const state = read(join(folder, FILE))?.state ?? null
  return state !== null && isRunning(state.supervisor) ? state : null
}

/** Null when there is no file. A damaged one has no state: it is taken over. */
function read(path: string): { state: RunningState | null; text: string } | null {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return null
  }
  try {
    const state = JSON.parse(text) as RunningState
    return { text, state: Number.isInteger(state.supervisor.pid) && Array.isArray(state.children) ? state : null }
  } catch {
    return { text, state: null }
  }
}
