import { InvalidArgumentException } from '../framework/errors.ts'

/** How many calls a provider allows in how many seconds. Fixed windows unless `.sliding()`. */
export class RateLimit {
  private constructor(
    readonly limit: number,
    readonly seconds: number,
    readonly window: 'fixed' | 'sliding',
  ) {}

  static perMinute(n: number): RateLimit {
    return RateLimit.per(n, 60)
  }

  static perHour(n: number): RateLimit {
    return RateLimit.per(n, 3_600)
  }

  static perDay(n: number): RateLimit {
    return RateLimit.per(n, 86_400)
  }

  /**
   * @param limit calls, an integer of at least 1
   * @param seconds length of the window, an integer of at least 1
   */
  static per(limit: number, seconds: number): RateLimit {
    if (!Number.isInteger(limit) || limit < 1)
      throw new InvalidArgumentException('limit', `an integer of at least 1 is allowed, ${limit} was given`)
    if (!Number.isInteger(seconds) || seconds < 1)
      throw new InvalidArgumentException('seconds', `an integer of at least 1 is allowed, ${seconds} was given`)
    return new RateLimit(limit, seconds, 'fixed')
  }

  /** The same limit over a rolling window: no span of `seconds` ever holds more. */
  sliding(): RateLimit {
    return new RateLimit(this.limit, this.seconds, 'sliding')
  }

  /** The same limit over windows that start at multiples of `seconds` since the epoch. */
  fixed(): RateLimit {
    return new RateLimit(this.limit, this.seconds, 'fixed')
  }
}
