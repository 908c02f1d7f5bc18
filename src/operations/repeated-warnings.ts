/** Warnings of what anybody can bring about as often as they like: counted, and told at most once a minute for each subject. */
import type { Clock, Logger } from '../core/logger.ts'

const EVERY_MS = 60_000

interface Told {
  at: number
  /** Since the first. */
  total: number
  sinceLine: number
}

export class RepeatedWarnings {
  readonly #told = new Map<string, Told>()
  readonly #logger: Logger
  readonly #clock: Clock

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger
    this.#clock = clock
  }

  /**
   * The line says how often it came about since the line before it (`times`), and since this process began (`total`).
   *
   * @param fields only asked for when there is a line
   */
  warn(subject: string, fields: () => Record<string, unknown>, message: string): void {
    const now = this.#clock.now().getTime()
    const told = this.#told.get(subject) ?? { at: Number.NEGATIVE_INFINITY, total: 0, sinceLine: 0 }
    this.#told.set(subject, told)
    told.total += 1
    told.sinceLine += 1
    if (now - told.at < EVERY_MS) return
    this.#logger.warn({ ...fields(), times: told.sinceLine, total: told.total }, message)
    told.at = now
    told.sinceLine = 0
  }
}
