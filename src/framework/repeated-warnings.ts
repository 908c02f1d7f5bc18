/** Warnings of what anybody can bring about as often as they like: counted, and told at most once a minute for each subject. */
import type { Clock, Logger } from './logger.ts'

const EVERY_MS = 60_000
/** Subjects that are remembered. Further ones of the same minute share a line for each message. */
const MAX_SUBJECTS = 1_000

interface Told {
  at: number
  /** Since the first. */
  total: number
  sinceLine: number
  /** How many of `sinceLine` each reason has. */
  reasons: Record<string, number>
}

interface Warning {
  readonly fields: () => Record<string, unknown>
  readonly message: string
  readonly reason: string | undefined
}

export class RepeatedWarnings {
  readonly #told = new Map<string, Told>()
  /** By the message: as many as the code has. */
  readonly #others = new Map<string, Told>()
  readonly #logger: Logger
  readonly #clock: Clock

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger
    this.#clock = clock
  }

  /**
   * The line says how often it came about since the line before it (`times`), for which reasons (`reasons`), and how often since this
   * process began (`total`). A line with `others` is of several subjects, and has no other field of theirs than `event`.
   *
   * @param fields only asked for when there is a line
   * @param reason one of a few; left out: it has none
   */
  warn(subject: string, fields: () => Record<string, unknown>, message: string, reason?: string): void {
    const now = this.#clock.now().getTime()
    if (this.#told.has(subject) || this.#hasRoom(now)) this.#tell(this.#told, subject, now, { fields, message, reason })
    else {
      const others = () => ({ event: fields().event, others: true })
      this.#tell(this.#others, message, now, { fields: others, message, reason })
    }
  }

  #tell(among: Map<string, Told>, subject: string, now: number, { fields, message, reason }: Warning): void {
    const told = among.get(subject) ?? { at: Number.NEGATIVE_INFINITY, total: 0, sinceLine: 0, reasons: {} }
    among.set(subject, told)
    told.total += 1
    told.sinceLine += 1
    if (reason !== undefined) told.reasons[reason] = (told.reasons[reason] ?? 0) + 1
    if (!isOld(told, now)) return
    const { sinceLine: times, total, reasons } = told
    this.#logger.warn({ ...fields(), times, total, ...(reason === undefined ? {} : { reasons }) }, message)
    told.at = now
    told.sinceLine = 0
    told.reasons = {}
    // Last in the order: it has the newest warning.
    among.delete(subject)
    among.set(subject, told)
  }

  /** Forgets the subject with the oldest warning, unless that is of this minute. */
  #hasRoom(now: number): boolean {
    if (this.#told.size < MAX_SUBJECTS) return true
    const [oldest] = this.#told
    if (oldest === undefined || !isOld(oldest[1], now)) return false
    this.#told.delete(oldest[0])
    return true
  }
}

/** A moment that lies ahead was of a clock that has stepped back since. */
function isOld({ at }: Told, now: number): boolean {
  return Math.abs(now - at) >= EVERY_MS
}
