/** What a bench has started, ended in the reverse order. */
export class Started {
  readonly #stops: (() => Promise<unknown>)[] = []

  async add<T>(what: T | Promise<T>, stop: (what: T) => Promise<unknown>): Promise<T> {
    const running = await what
    this.#stops.push(() => stop(running))
    return running
  }

  async stop(): Promise<void> {
    for (let stop = this.#stops.pop(); stop !== undefined; stop = this.#stops.pop()) await stop()
  }
}
