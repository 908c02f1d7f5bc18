/**
 * Wakes the inbox, the outbox and the workflows of incidents and webhook subscriptions. Each wake-up is tried until it succeeds; the rows are stored meanwhile.
 * Rule: docs/behaviour/webhook-recovery.md, "Wake-ups".
 */
import { inTime } from '../framework/waiting.ts'

/** Wake-ups of one integration are so far apart at least; the inbox takes many rows at once anyway. */
const WAKE_EVERY_MS = 200
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 60_000
/** A try that is brought forward still keeps so far from the one before it. */
const FORWARD_AFTER_MS = 1_000

export interface WakeUpsOptions {
  /**
   * Never waits for longer than some seconds: one that hangs would hold up all that come after it.
   *
   * @param signal aborted at the end, when it has been waited for long enough
   */
  send(integrationId: number, signal: AbortSignal): Promise<unknown>
  /** A regular try has failed; the next one is so far off. */
  onFailure(integrationId: number, error: unknown, waitMs: number): void
}

export class WakeUps {
  readonly #wakers = new Map<number, Waker>()
  /** Those whose last try failed, and which nothing has brought forward since. */
  readonly #retrying = new Set<Waker>()
  #isStopped = false
  readonly #options: WakeUpsOptions

  constructor(options: WakeUpsOptions) {
    this.#options = options
  }

  wake(integrationId: number): void {
    // The row is stored; another process's sweep finds it.
    if (this.#isStopped) return
    let waker = this.#wakers.get(integrationId)
    if (waker === undefined) {
      const made: Waker = new Waker({
        send: (signal) => this.#options.send(integrationId, signal),
        onSuccess: () => this.#bringForwardAll(),
        onFailure: (error, waitMs) => {
          this.#retrying.add(made)
          if (waitMs !== null) this.#options.onFailure(integrationId, error, waitMs)
        },
        onIdle: () => this.#wakers.delete(integrationId),
      })
      waker = made
      this.#wakers.set(integrationId, made)
    }
    waker.wake()
  }

  /** Nothing new; what is under way may still arrive, and so may one that waits its turn. */
  async stop(withinMs: number): Promise<void> {
    this.#isStopped = true
    await Promise.all([...this.#wakers.values()].map((waker) => waker.stop(withinMs)))
  }

  /** Where one gets through, so do the others: none sleeps on after the server's return. */
  #bringForwardAll(): void {
    const retrying = [...this.#retrying]
    this.#retrying.clear()
    for (const waker of retrying) waker.bringForward()
  }
}

interface WakerOptions {
  readonly send: (signal: AbortSignal) => Promise<unknown>
  readonly onSuccess: () => void
  /** `waitMs` until the next regular try; null: this one was brought forward, and the regular one is still to come. */
  readonly onFailure: (error: unknown, waitMs: number | null) => void
  readonly onIdle: () => void
}

/** One integration's: one send in flight at a time; what comes meanwhile is one more afterwards. */
class Waker {
  #state: 'idle' | 'sending' | 'resting' | 'retrying' = 'idle'
  /** Something has arrived since the last send began. */
  #isOwed = false
  #isStopped = false
  #isBroughtForward = false
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<unknown> = Promise.resolve()
  /** Of the send in flight: a new one each time, since the SDK never takes its listeners off a signal. */
  #ending = new AbortController()
  #retryMs = FIRST_RETRY_MS
  #failedAt = 0
  /** When the regular try is due, however many are brought forward before it. */
  #retryAt = 0
  readonly #options: WakerOptions

  constructor(options: WakerOptions) {
    this.#options = options
  }

  wake(): void {
    if (this.#isStopped) return
    if (this.#state === 'idle') void this.#run()
    else if (this.#state === 'retrying') this.bringForward()
    else this.#isOwed = true
  }

  bringForward(): void {
    if (this.#state !== 'retrying' || this.#isBroughtForward || this.#isStopped) return
    const at = this.#failedAt + FORWARD_AFTER_MS
    if (at >= this.#retryAt) return
    this.#isBroughtForward = true
    this.#after(at - performance.now())
  }

  async stop(withinMs: number): Promise<void> {
    const isOwed = this.#isOwed || this.#state === 'retrying'
    this.#isStopped = true
    clearTimeout(this.#timer)
    const last = this.#sending
      .catch(() => {})
      .then(() => (isOwed ? this.#send() : undefined))
      .catch(() => {})
    // The wait keeps the process alive: a connection that is tried again does not, and a command would end without a word.
    await inTime(last, withinMs)
    this.#ending.abort()
  }

  #send(): Promise<unknown> {
    this.#ending = new AbortController()
    return this.#options.send(this.#ending.signal)
  }

  async #run(): Promise<void> {
    this.#state = 'sending'
    this.#isOwed = false
    try {
      this.#sending = this.#send()
      await this.#sending
    } catch (error) {
      if (!this.#isStopped) this.#retry(error)
      return
    }
    this.#retryMs = FIRST_RETRY_MS
    this.#retryAt = 0
    this.#isBroughtForward = false
    this.#options.onSuccess()
    if (this.#isStopped) return
    this.#state = 'resting'
    this.#after(WAKE_EVERY_MS)
  }

  #retry(error: unknown): void {
    this.#state = 'retrying'
    this.#failedAt = performance.now()
    const wasRegular = !this.#isBroughtForward
    const waitMs = this.#retryMs
    this.#isBroughtForward = false
    if (wasRegular) {
      this.#retryAt = this.#failedAt + waitMs
      this.#retryMs = Math.min(waitMs * 2, LAST_RETRY_MS)
    }
    this.#after(this.#retryAt - this.#failedAt)
    this.#options.onFailure(error, wasRegular ? waitMs : null)
  }

  #after(waitMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#next(), Math.max(0, waitMs))
    // A wake-up that waits must not keep a process alive that has nothing else to do.
    this.#timer.unref()
  }

  #next(): void {
    if (this.#state === 'retrying' || this.#isOwed) {
      void this.#run()
      return
    }
    this.#state = 'idle'
    this.#options.onIdle()
  }
}
