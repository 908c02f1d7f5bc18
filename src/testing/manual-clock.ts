import type { Clock } from '../framework/logger.ts'

/** A length of time in parts; they add up. */
export interface Duration {
  readonly days?: number
  readonly hours?: number
  readonly minutes?: number
  readonly seconds?: number
}

/**
 * Time that stands still until a test moves it. The kit's code and the kit's database both read it, see
 * docs/testing.md, "Time".
 */
export class ManualClock implements Clock {
  #now: Date

  /** @param start a moment, as a Date or ISO 8601 text. Default: the machine's time */
  constructor(start: Date | string = new Date()) {
    this.#now = givenDate(start)
  }

  now(): Date {
    return new Date(this.#now)
  }

  /** Moves forward by these seconds, or by the given parts. Time that goes back is `set()`. */
  advance(by: number | Duration): void {
    const seconds = typeof by === 'number' ? by : secondsOf(by)
    if (!Number.isFinite(seconds) || seconds < 0)
      throw new RangeError(`advance() takes 0 or more seconds, ${seconds} was given; set() goes back`)
    this.#now = new Date(this.#now.getTime() + Math.round(seconds * 1_000))
  }

  set(to: Date | string): void {
    this.#now = givenDate(to)
  }
}

/** The kit's: it moves on where a call waits for its next attempt or for capacity. */
export class MovingClock extends ManualClock {
  async wait(ms: number): Promise<void> {
    this.advance(ms / 1_000)
  }
}

function secondsOf({ days = 0, hours = 0, minutes = 0, seconds = 0 }: Duration): number {
  return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
}

function givenDate(given: Date | string): Date {
  const moment = new Date(given)
  if (Number.isNaN(moment.getTime()))
    throw new RangeError(`a moment is a Date or ISO 8601 text such as 2026-01-31T12:00:00Z, ${given} was given`)
  return moment
}
