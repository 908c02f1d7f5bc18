/** What a session refused of a listing. Rule: docs/behaviour/sync-listing.md, "The session". */

/**
 * Refusals are rejections that the provider's code may notice, and then go on. A rejection that is not awaited by the next
 * turn of the event loop would end a Node process; here the session learns of it, and fails the listing.
 */
export class Refusals {
  readonly #unnoticed = new Set<{ readonly error: unknown }>()
  readonly #onUnnoticed: (error: unknown) => void

  constructor(onUnnoticed: (error: unknown) => void) {
    this.#onUnnoticed = onUnnoticed
  }

  refuse(error: unknown): Promise<never> {
    const refusal = { error }
    const rejection = noticeable(error, () => this.#unnoticed.delete(refusal))
    this.#unnoticed.add(refusal)
    setImmediate(() => this.#unnoticed.has(refusal) && this.#onUnnoticed(error))
    return rejection
  }

  /** The listing has returned. @throws the first refusal that was not awaited */
  throwUnnoticed(): void {
    for (const { error } of this.#unnoticed) throw error
  }
}

/**
 * A rejection that reports when code attaches to it. `await`, `then()`, `catch()`, `finally()` and `Promise.all()` ask the
 * promise's class for its species first (ECMA-262, "Promise.prototype.then").
 */
function noticeable(error: unknown, onNoticed: () => void): Promise<never> {
  class Refused extends Promise<never> {
    static override get [Symbol.species](): PromiseConstructor {
      onNoticed()
      return Promise
    }
  }
  const refused = new Refused((_, reject) => reject(error))
  // Handled as far as Node knows.
  refused.catch(() => {})
  return refused
}
