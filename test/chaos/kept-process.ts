/** A process that is started again whenever it ends, as a supervisor does, and that a test may end with `kill -9`. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProcessExit } from '../../dev/processes.ts'

const RESTART_AFTER_MS = 300
const READY_SECONDS = 90
const POLL_MS = 20
const IN_THE_ACT_SECONDS = 60

export interface StartedProcess {
  /** All that belongs to it, asked for at the moment of the kill. */
  pids(): number[]
  /** Ends when it serves; may never. */
  readonly ready: Promise<void>
  /** Null: it can't be said how. */
  readonly exited: Promise<ProcessExit | null>
}

/** An end that nobody here asked for. */
export interface OwnEnd {
  readonly atMs: number
  readonly wasReady: boolean
  readonly exit: ProcessExit | null
}

export class KeptProcess {
  readonly name: string
  /** A start that threw is no end. */
  readonly ownEnds: OwnEnd[] = []
  readonly #start: () => Promise<StartedProcess>
  readonly #log: (line: string) => void
  #current: StartedProcess | null = null
  /** What was asked to end, or killed. */
  readonly #ended = new WeakSet<StartedProcess>()
  #isReady = false
  #waiting: (() => void)[] = []
  #mayStart: Promise<void> = Promise.resolve()
  #allowStart: () => void = () => {}
  #isStopping = false
  #lastEnd = 'it never ended'
  readonly #kept: Promise<void>

  /** @param start may throw: it is tried again, as the backends that it needs may be away */
  constructor(name: string, start: () => Promise<StartedProcess>, log: (line: string) => void) {
    this.name = name
    this.#start = start
    this.#log = log
    this.#kept = this.#keepUp()
  }

  /** Ends when it serves; at once if it does. */
  async ready(): Promise<void> {
    if (this.#isReady) return
    const timeout = new AbortController()
    const late = sleep(READY_SECONDS * 1_000, 'late', { ref: false, signal: timeout.signal })
    const outcome = await Promise.race([late, new Promise<void>((resolve) => this.#waiting.push(resolve))])
    timeout.abort()
    if (outcome === 'late')
      throw new Error(`${this.name} was not ready within ${READY_SECONDS} s; last: ${this.#lastEnd}`)
  }

  /** Ends when something of it runs, be it ready or about to be; at once if it does. */
  async started(): Promise<StartedProcess> {
    while (this.#current === null) await sleep(POLL_MS)
    return this.#current
  }

  /**
   * `kill -9` of whatever of it runs now, be it ready or about to be; of what is started next, if nothing runs. Ends when it is
   * gone; another is started.
   */
  async kill(): Promise<void> {
    const current = await this.started()
    this.#isReady = false
    this.#killAll(current)
    await current.exited
  }

  /**
   * The same as {@link kill}, at a moment when this holds: asked while it stands still, so that a test that was held up itself
   * does not come too late. For a part without which the question can be answered.
   *
   * @param diagnosis what to say where it does not come to hold
   */
  async killInTheAct(
    isInTheAct: () => Promise<boolean>,
    diagnosis: () => Promise<string>,
    { seconds = IN_THE_ACT_SECONDS } = {},
  ): Promise<void> {
    const giveUpAt = performance.now() + seconds * 1_000
    while (performance.now() < giveUpAt) {
      await this.ready()
      const pids = this.#current?.pids() ?? []
      for (const pid of pids) process.kill(pid, 'SIGSTOP')
      if (await isInTheAct()) return this.kill()
      for (const pid of pids) process.kill(pid, 'SIGCONT')
      await sleep(POLL_MS)
    }
    throw new Error(`${this.name} was not met in the act within ${seconds} s.\n${await diagnosis()}`)
  }

  /** Asks it to end, as a deployment does, and lets it take its time. Ends when it is gone; another is started. */
  async terminate(): Promise<void> {
    await this.ready()
    const current = this.#current
    this.#isReady = false
    if (current === null) return
    this.#ended.add(current)
    for (const pid of current.pids()) process.kill(pid, 'SIGTERM')
    await current.exited
  }

  /** The same as {@link kill}, but nothing is started before the returned function is called. That one ends when it serves again. */
  killAndKeepAway(): Promise<() => Promise<void>> {
    return this.#keepAway(() => this.kill())
  }

  /** The same as {@link terminate}, and then as {@link killAndKeepAway}. */
  terminateAndKeepAway(): Promise<() => Promise<void>> {
    return this.#keepAway(() => this.terminate())
  }

  async #keepAway(end: () => Promise<void>): Promise<() => Promise<void>> {
    this.#mayStart = new Promise((resolve) => {
      this.#allowStart = resolve
    })
    await end()
    return () => {
      this.#allowStart()
      return this.ready()
    }
  }

  /** Stops it where it stands, as a machine does that swaps or is moved, and lets it go on after so long. */
  async freeze(seconds: number): Promise<void> {
    const pids = (await this.started()).pids()
    for (const pid of pids) signal(pid, 'SIGSTOP')
    await sleep(seconds * 1_000)
    // It may have been killed meanwhile.
    for (const pid of pids) signal(pid, 'SIGCONT')
  }

  /** By `kill -9` as well: nobody asks for its data any more. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#allowStart()
    if (this.#current !== null) this.#killAll(this.#current)
    await this.#kept
  }

  async #keepUp(): Promise<void> {
    while (!this.#isStopping) {
      await this.#mayStart
      if (this.#isStopping) return
      try {
        const started = await this.#start()
        this.#current = started
        if (this.#isStopping) this.#killAll(started)
        const outcome = await Promise.race([started.ready.then(() => 'ready'), started.exited.then(() => 'ended')])
        if (outcome === 'ready') this.#tellReady()
        const exit = await started.exited
        if (!this.#ended.has(started)) this.ownEnds.push({ atMs: Date.now(), wasReady: this.#isReady, exit })
        this.#lastEnd = 'ended'
      } catch (error) {
        this.#lastEnd = `could not be started: ${error instanceof Error ? error.message : String(error)}`
      }
      this.#log(`${this.name} ${this.#lastEnd}`)
      this.#isReady = false
      this.#current = null
      if (!this.#isStopping) await sleep(RESTART_AFTER_MS)
    }
  }

  #tellReady(): void {
    this.#isReady = true
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #killAll(started: StartedProcess): void {
    this.#ended.add(started)
    for (const pid of started.pids()) signal(pid, 'SIGKILL')
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    // It ended by itself in this very moment, as a Postgres backend does when its postmaster is gone.
    if ((error as { code?: string }).code !== 'ESRCH') throw error
  }
}
