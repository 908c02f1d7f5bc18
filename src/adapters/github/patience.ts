/** How long one download may take in all, and how long it may say nothing. */
export class Patience {
  readonly #controller = new AbortController()
  readonly #total: NodeJS.Timeout
  readonly #idleMs: number
  #idle: NodeJS.Timeout | undefined
  readonly #lost: Promise<never>

  constructor({ totalMs, idleMs }: { readonly totalMs: number; readonly idleMs: number }) {
    this.#idleMs = idleMs
    const { signal } = this
    this.#lost = new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    // It is told to who waits, in `during()`; nobody may be waiting.
    this.#lost.catch(() => {})
    this.#total = setTimeout(() => this.#lose(`took longer than ${totalMs} ms`), totalMs)
    this.heard()
  }

  /** Aborted when it is lost, with a `TimeoutError` as `AbortSignal.timeout()` gives it. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The work's end, or the loss of patience: not every body that is read knows of the signal. */
  during<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#lost])
  }

  /** Something came. */
  heard(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#lose(`sent nothing for ${this.#idleMs} ms`), this.#idleMs)
  }

  end(): void {
    clearTimeout(this.#total)
    clearTimeout(this.#idle)
  }

  #lose(what: string): void {
    this.#controller.abort(new DOMException(`The download of an asset ${what}.`, 'TimeoutError'))
  }
}
