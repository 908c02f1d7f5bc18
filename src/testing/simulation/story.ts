/** What happened, line by line, by the host's clock. Two runs of one plan tell the same story: its hash says so. */
import { createHash } from 'node:crypto'
import type { ManualClock } from '../manual-clock.ts'

const HASH_CHARACTERS = 12

export class Story {
  readonly lines: string[] = []
  readonly #clock: ManualClock

  constructor(clock: ManualClock) {
    this.#clock = clock
  }

  add(what: string): void {
    this.lines.push(`${this.#clock.now().toISOString().slice(5, 19).replace('T', ' ')}  ${what}`)
  }

  get hash(): string {
    return createHash('sha256').update(this.lines.join('\n')).digest('hex').slice(0, HASH_CHARACTERS)
  }
}
