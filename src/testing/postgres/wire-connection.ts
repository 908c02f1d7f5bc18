/** One connection to the shared session, as the stream that postgres.js takes for a socket. No network is involved. */
import { Duplex } from 'node:stream'
import { startupOf } from '../../db/startup-message-rules.ts'
import type { Exchanges } from './shared-session.ts'
import { SessionIsHeld } from './shared-session.ts'
import type { Exchange } from './wire-messages.ts'
import { errorResponse, exchangesIn, READY } from './wire-messages.ts'

/** https://www.postgresql.org/docs/current/errcodes-appendix.html: lock_not_available */
const LOCK_NOT_AVAILABLE = '55P03'

export class Connection extends Duplex {
  readonly #session: Exchanges
  /** What a server says to a new connection; the same for all of them. */
  readonly #greeting: Buffer
  readonly #who = Symbol('connection')
  #received = Buffer.alloc(0)
  #hasStarted = false
  /** After an error within an exchange the client's messages are passed over up to its Sync. */
  #isSkipping = false
  #work: Promise<void> = Promise.resolve()

  constructor(session: Exchanges, greeting: Buffer) {
    super()
    this.#session = session
    this.#greeting = greeting
  }

  /** postgres.js asks a socket for it before it says goodbye. */
  get readyState(): 'open' | 'closed' {
    return this.destroyed ? 'closed' : 'open'
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#received = Buffer.concat([this.#received, chunk])
    if (this.#hasStarted || this.#begin()) {
      const { exchanges, rest } = exchangesIn(this.#received)
      this.#received = Buffer.from(rest)
      for (const exchange of exchanges) this.#work = this.#work.then(() => this.#answer(exchange))
    }
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#session.release(this.#who)
    done(error)
  }

  /** Whether the connection's first message is there and was a start; it is answered without the session. */
  #begin(): boolean {
    if (this.#received.length < 8 || this.#received.length < this.#received.readInt32BE(0)) return false
    const { kind } = startupOf(this.#received)
    this.#received = Buffer.from(this.#received.subarray(this.#received.readInt32BE(0)))
    if (kind === 'cancel') {
      // Each statement is done when it is sent: there is nothing to cancel.
      this.destroy()
      return false
    }
    if (kind === 'encryption') {
      this.#say(Buffer.from('N'))
      return this.#begin()
    }
    this.#hasStarted = true
    this.#say(this.#greeting)
    return true
  }

  /** Later: postgres.js does not expect an answer while it is still writing. */
  #say(bytes: Buffer): void {
    this.#work = this.#work.then(() => void this.push(bytes))
  }

  async #answer({ bytes, asks }: Exchange): Promise<void> {
    if (this.destroyed) return
    if (asks === 'X') {
      this.destroy()
      return
    }
    if (this.#isSkipping) {
      if (asks === 'S') this.#recover()
      return
    }
    try {
      const answer = await this.#session.exchange(this.#who, bytes)
      if (!this.destroyed) this.push(answer)
    } catch (error) {
      if (!(error instanceof SessionIsHeld)) {
        this.destroy(error as Error)
        return
      }
      this.push(errorResponse(LOCK_NOT_AVAILABLE, error.message))
      this.#isSkipping = true
      if (asks === 'Q' || asks === 'S') this.#recover()
    }
  }

  #recover(): void {
    this.#isSkipping = false
    this.push(READY)
  }
}
