/** Numbers that follow from a seed: the same ones each time. */
export class Random {
  #state: number

  /** @param seed a whole number; its lowest 32 bits count */
  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 to below 1. The generator is mulberry32, of 32 bits: https://github.com/cprosche/mulberry32 */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** A whole number; both ends inclusive. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  /** Small numbers come more often than great ones. */
  small(max: number): number {
    return 1 + Math.floor(this.next() ** 2 * max)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  /** @throws RangeError when there is nothing to pick from */
  pick<T>(from: readonly T[]): T {
    if (from.length === 0) throw new RangeError('pick() takes a list of one or more, an empty one was given')
    return from[Math.floor(this.next() * from.length)] as T
  }
}
