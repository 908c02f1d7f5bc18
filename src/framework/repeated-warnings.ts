/** Warnings of what anybody can bring about as often as they like: counted, and told at most once a minute for each subject. */
import type { Clock, Logger } from './logger.ts'

const EVERY_MS = 60_000
/** Subjects that are remembered; the one with the oldest warning is forgotten first. */
const MAX_SUBJECTS = 1_000

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
    if (!this.#told.has(subject) && this.#told.size >= MAX_SUBJECTS) this.#forgetOldest()
    this.#told.set(subject, told)
    told.total += 1
    told.sinceLine += 1
    if (now - told.at < EVERY_MS) return
    this.#logger.warn({ ...fields(), times: told.sinceLine, total: told.total }, message)
    told.at = now
    told.sinceLine = 0
    // Last in the order: it has the newest warning.
    this.#told.delete(subject)
    this.#told.set(subject, told)
  }

  #forgetOldest(): void {
    const [oldest] = this.#told.keys()
    if (oldest !== undefined) this.#told.delete(oldest)
  }
}
