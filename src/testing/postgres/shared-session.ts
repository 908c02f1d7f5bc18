/**
 * PGlite has one session; the framework and its host have several connections. They take turns in it: an exchange at a
 * time, and an open transaction keeps the session until it ends.
 */
import { query, SYNC, stateAfter } from './wire-messages.ts'

/** If a transaction is idle for this long while others wait, the code that opened it waits for one of them. */
const BLOCKED_AFTER_MS = 5_000

/** As far as the session needs PGlite: bytes of the protocol in, bytes out. */
export interface Backend {
  execProtocolRaw(message: Uint8Array): Promise<Uint8Array>
}

/** Told to the connection that waits, as an error of its statement. */
export class SessionIsHeld extends Error {
  constructor(seconds: number) {
    super(
      `the testing kit's database has one session, and another connection has kept a transaction open in it for ${seconds} s: ` +
        "inside a transaction use that transaction's handle, and nothing else, until it ends",
    )
  }
}

/** What a connection asks of the session. */
export interface Exchanges {
  /** @throws SessionIsHeld when another connection's transaction does not end */
  exchange(who: symbol, bytes: Uint8Array): Promise<Buffer>
  /** The connection is gone: what it has open is rolled back, as a server would. */
  release(who: symbol): void
}

interface Turn {
  readonly who: symbol
  readonly bytes: Uint8Array
  resolve(answer: Buffer): void
  reject(error: unknown): void
}

export class SharedSession implements Exchanges {
  readonly #backend: Backend
  /** Says SQL that must run before the next exchange of a session that is idle; null: none. */
  readonly #beforeIdle: () => string | null
  readonly #blockedAfterMs: number
  #waiting: Turn[] = []
  #holder: symbol | null = null
  #running: symbol | null = null
  /** The connection whose exchange runs is gone: what the exchange opens is rolled back as soon as it ends. */
  #isRunningAbandoned = false
  #watchdog: NodeJS.Timeout | undefined
  /** Counts what was done, so that the watchdog sees whether anything was. */
  #steps = 0

  constructor(backend: Backend, beforeIdle: () => string | null, blockedAfterMs = BLOCKED_AFTER_MS) {
    this.#backend = backend
    this.#beforeIdle = beforeIdle
    this.#blockedAfterMs = blockedAfterMs
  }

  exchange(who: symbol, bytes: Uint8Array): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ who, bytes, resolve, reject })
      this.#next()
    })
  }

  release(who: symbol): void {
    this.#waiting = this.#waiting.filter((turn) => turn.who !== who)
    if (this.#running === who) {
      this.#isRunningAbandoned = true
      return
    }
    if (this.#holder !== who) return
    const ignored = (): void => {}
    this.#waiting.unshift({ who, bytes: Buffer.concat([SYNC, query('rollback')]), resolve: ignored, reject: ignored })
    this.#next()
  }

  #next(): void {
    if (this.#running !== null) return
    this.#steps += 1
    clearTimeout(this.#watchdog)
    const at = this.#waiting.findIndex((turn) => this.#holder === null || turn.who === this.#holder)
    const [turn] = at < 0 ? [] : this.#waiting.splice(at, 1)
    if (turn !== undefined) {
      this.#running = turn.who
      void this.#run(turn)
    } else if (this.#waiting.length > 0) this.#watch(this.#steps)
  }

  async #run(turn: Turn): Promise<void> {
    try {
      const before = this.#holder === null ? this.#beforeIdle() : null
      if (before !== null) await this.#backend.execProtocolRaw(query(before))
      // A copy: PGlite gives a view of memory that its next answer overwrites.
      const answer = Buffer.from(await this.#backend.execProtocolRaw(turn.bytes))
      // Between Parse and Sync there is no state: the unnamed statement belongs to this connection until then.
      this.#holder = stateAfter(answer) === 'I' ? null : turn.who
      turn.resolve(answer)
    } catch (error) {
      turn.reject(error)
    } finally {
      this.#running = null
      if (this.#isRunningAbandoned) {
        this.#isRunningAbandoned = false
        this.release(turn.who)
      }
      this.#next()
    }
  }

  #watch(steps: number): void {
    this.#watchdog = setTimeout(() => {
      // Where the machine was busy, the holder's next message may lie behind this very timer.
      setImmediate(() => {
        if (this.#steps === steps) this.#giveUp()
      })
    }, this.#blockedAfterMs)
  }

  #giveUp(): void {
    const blocked = this.#waiting
    this.#waiting = []
    for (const turn of blocked) turn.reject(new SessionIsHeld(this.#blockedAfterMs / 1_000))
  }
}
