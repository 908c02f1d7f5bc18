/**
 * The children of `npm start`: how they are started, told apart from strangers with a reused pid, and ended.
 *
 * Every child leads a process group of its own, so that Ctrl-C in the terminal reaches the supervisor alone and nothing a
 * child started outlives it. A Node child has an IPC channel: its 'disconnect' event says that the supervisor is dead.
 */
import type { ChildProcess } from 'node:child_process'
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const GRACE_SECONDS = 15 // a worker's running activities get 10 s to end (Temporal's shutdown grace), plus slack
const REPEATED_SIGNAL_MS = 1000 // one Ctrl-C may arrive twice: from the terminal and again from a wrapper (npm, tsx)

/** A pid alone may belong to somebody else tomorrow; a pid with its start time does not. */
export interface ProcessIdentity {
  readonly pid: number
  /** Compared for equality only: boot id and clock ticks on Linux, `ps -o lstart` elsewhere. */
  readonly startedAt: string
}

export interface ProcessExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ProcessOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  /** Added to this process's environment; undefined removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string
  /** One line of stdout or stderr, without its newline. */
  readonly onLine: (line: string) => void
  /** Default 15 s between SIGTERM and SIGKILL. */
  readonly graceSeconds?: number
}

export interface ManagedProcess {
  readonly name: string
  readonly pid: number
  readonly identity: ProcessIdentity
  readonly child: ChildProcess
  readonly exited: Promise<ProcessExit>
  /** SIGTERM, and SIGKILL to the whole group after the grace period. Ends when the process has ended. */
  stop(): Promise<void>
}

/** Starts one child in its own process group. Rejects when the command can't be executed. */
export async function startProcess(options: ProcessOptions): Promise<ManagedProcess> {
  const ipc = options.command === process.execPath
  const child = spawn(options.command, options.args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    detached: true,
    stdio: ipc ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['ignore', 'pipe', 'pipe'],
  })
  const exited = new Promise<ProcessExit>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', (cause) => reject(new Error(`${options.name} can't be started: ${cause.message}`, { cause })))
  })
  child.on('error', (error) => options.onLine(`${options.name}: ${error.message}`))
  for (const stream of [child.stdout, child.stderr]) {
    if (stream !== null)
      createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on('line', options.onLine)
  }

  const pid = child.pid as number
  const graceSeconds = options.graceSeconds ?? GRACE_SECONDS
  let stopped: Promise<void> | undefined
  return {
    name: options.name,
    pid,
    identity: identifyProcess(pid) ?? { pid, startedAt: 'ended' },
    child,
    exited,
    stop() {
      stopped ??= (async () => {
        if (child.exitCode === null && child.signalCode === null) {
          child.kill('SIGTERM')
          await Promise.race([exited, sleep(graceSeconds * 1000, undefined, { ref: false })])
        }
        signalGroup(pid, 'SIGKILL')
        await exited
      })()
      return stopped
    },
  }
}

export interface Supervisor {
  /** True from the first call of `stop()`: an exit seen now is wanted. */
  readonly stopping: boolean
  start(options: ProcessOptions): Promise<ManagedProcess>
  /** Takes charge of something started elsewhere (Postgres, Temporal, the lock): it is stopped in its turn, or now if all is. */
  own(name: string, stop: () => Promise<void>): void
  /** Stops everything in the reverse of its starting order. One that fails to stop does not keep the others alive. */
  stop(): Promise<void>
  /** SIGKILL to every started group, at once. */
  kill(): void
}

/** Keeps what was started, so that a failed start, a signal or an exit leaves nothing behind. */
export function createSupervisor(options: { log: (line: string) => void }): Supervisor {
  const owned: { name: string; stop: () => Promise<void> }[] = []
  const processes: ManagedProcess[] = []
  /** Of what was taken charge of after the stop had begun. */
  const late: Promise<void>[] = []
  let stopping: Promise<void> | undefined

  async function stopOne({ name, stop }: { name: string; stop: () => Promise<void> }): Promise<void> {
    try {
      await stop()
    } catch (error) {
      options.log(`${name} did not stop cleanly: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  function kill() {
    for (const { child, pid } of processes) {
      if (child.exitCode === null && child.signalCode === null) signalGroup(pid, 'SIGKILL')
    }
  }
  process.on('exit', kill)

  return {
    get stopping() {
      return stopping !== undefined
    },
    async start(processOptions) {
      const started = await startProcess(processOptions)
      processes.push(started)
      // Asked to stop while this one was being started: it must not outlive the stop that did not see it.
      if (stopping !== undefined) await started.stop()
      else owned.push({ name: started.name, stop: started.stop })
      return started
    },
    own(name, stop) {
      if (stopping === undefined) owned.push({ name, stop })
      else late.push(stopOne({ name, stop }))
    },
    async stop() {
      stopping ??= (async () => {
        for (let next = owned.pop(); next !== undefined; next = owned.pop()) await stopOne(next)
        process.off('exit', kill)
      })()
      await stopping
      await Promise.all(late)
    },
    kill,
  }
}

/** Ctrl-C, `kill` and a closed terminal stop everything in order; a second one a second later kills. Returns an undo. */
export function stopOnSignals(
  supervisor: Supervisor,
  options: { log: (line: string) => void; exit?: (code: number) => void },
): () => void {
  const exit = options.exit ?? ((code: number) => process.exit(code))
  let firstAt: number | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = performance.now()
      options.log(`${signal}: stopping`)
      void supervisor.stop().then(() => exit(0))
    } else if (performance.now() - firstAt > REPEATED_SIGNAL_MS) {
      options.log(`${signal} again: killing`)
      supervisor.kill()
      exit(1)
    }
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, onSignal)
  return () => {
    for (const signal of signals) process.off(signal, onSignal)
  }
}

/** The process that has the pid now. Null when it is gone; a zombie counts as gone. */
export function identifyProcess(pid: number): ProcessIdentity | null {
  try {
    if (process.platform === 'linux') {
      // proc(5): the name in parentheses may hold anything; after it come the state (3) and, as field 22, the start time.
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (fields[0] === 'Z' || fields[0] === 'X') return null
      // Ticks count from boot, hence the boot id.
      const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
      return { pid, startedAt: `${boot}/${fields[19]}` }
    }
    const answer = ps('stat=,lstart=', pid)
    const [state = '', ...started] = answer.split(/\s+/)
    return answer === '' || state.startsWith('Z') ? null : { pid, startedAt: started.join(' ') }
  } catch {
    return null
  }
}

/** Whether that very process still runs. */
export function isRunning(identity: ProcessIdentity): boolean {
  return identifyProcess(identity.pid)?.startedAt === identity.startedAt
}

/** The command line of a process, or '' when it has ended or may not be read. */
export function commandLineOf(pid: number): string {
  try {
    // Not `ps` on Linux: slim images lack it.
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
    return ps('command=', pid)
  } catch {
    return ''
  }
}

/** The processes whose working directory is `folder`, as far as this user may see. */
export function processesIn(folder: string): number[] {
  try {
    const real = realpathSync(folder)
    if (process.platform !== 'linux') {
      const found = execFileSync('lsof', ['-t', '-a', '-d', 'cwd', '--', real], { stdio: ['ignore', 'pipe', 'ignore'] })
      return found.toString().split('\n').filter(Boolean).map(Number)
    }
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => Number.isInteger(pid) && workingDirectoryOf(pid) === real)
  } catch {
    return []
  }
}

/** Ends a process that this one did not start: `signal`, then SIGKILL after the grace period. False when it survived. */
export async function endProcess(
  identity: ProcessIdentity,
  options: { signal?: NodeJS.Signals; graceSeconds?: number; group?: boolean } = {},
): Promise<boolean> {
  const send = (signal: NodeJS.Signals) =>
    options.group === true ? signalGroup(identity.pid, signal) : signalProcess(identity.pid, signal)
  if (!isRunning(identity)) return true
  send(options.signal ?? 'SIGTERM')
  if (await hasEnded(identity, options.graceSeconds ?? GRACE_SECONDS)) return true
  send('SIGKILL')
  return hasEnded(identity, 5)
}

async function hasEnded(identity: ProcessIdentity, seconds: number): Promise<boolean> {
  const deadline = performance.now() + seconds * 1000
  while (isRunning(identity)) {
    if (performance.now() > deadline) return false
    await sleep(50)
  }
  return true
}

function workingDirectoryOf(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return null
  }
}

function ps(columns: string, pid: number): string {
  return execFileSync('ps', ['-o', columns, '-p', String(pid)], {
    env: { ...process.env, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .toString()
    .trim()
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  signalProcess(-pid, signal)
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // Ended meanwhile.
  }
}
