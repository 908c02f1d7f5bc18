/** Stores the outcomes of a pump or a batch. Rule: docs/behaviour/webhooks.md, "Settling". */
import type { Logger } from '../framework/logger.ts'
import { patiently } from '../framework/waiting.ts'

const MAX_ROWS = 200
/** Outcomes that gather are stored once there are this many. */
const GATHER_ROWS = 50
/** Those of an integration with a backlog gather for this time at most. */
const BACKLOG_GATHERS_MS = 20

export interface SettlingOptions<Outcome> {
  /** Tried until it succeeds, or the signal is aborted. */
  settle(outcomes: readonly Outcome[]): Promise<void>
  /** They are stored, or could not be before the end. */
  onSettled?(outcomes: readonly Outcome[]): void
  readonly signal: AbortSignal
  readonly logger: Logger
}

/** What an outcome has in common with those that it is stored with. */
export interface OutcomeKind {
  /** Of an integration with a backlog. */
  readonly isBacklog: boolean
  /** Its row has an ordering key, so its statement may wait for the key's lock. Default false. */
  readonly isOrdered?: boolean
}

/**
 * A lane for each kind of outcome: none waits for a statement of another kind. In a lane it is one statement at a time; what ends
 * meanwhile goes with the next one. Statements of a backlog are larger.
 */
export class Settling<Outcome> {
  readonly #unordered: Lanes<Outcome>
  readonly #ordered: Lanes<Outcome>

  constructor(options: SettlingOptions<Outcome>) {
    this.#unordered = lanes(options)
    this.#ordered = lanes(options)
  }

  add(outcome: Outcome, { isBacklog, isOrdered = false }: OutcomeKind): void {
    const { quick, gathering } = isOrdered ? this.#ordered : this.#unordered
    const lane = isBacklog ? gathering : quick
    lane.add(outcome)
  }

  /** Waits for all of it. @throws the last error when the end came before it was stored */
  async finish(): Promise<void> {
    const all = [this.#unordered, this.#ordered].flatMap(({ quick, gathering }) => [quick, gathering])
    await Promise.all(all.map((lane) => lane.finish()))
  }
}

interface Lanes<Outcome> {
  readonly quick: SettlingLane<Outcome>
  readonly gathering: SettlingLane<Outcome>
}

const lanes = <Outcome>(options: SettlingOptions<Outcome>): Lanes<Outcome> => ({
  quick: new SettlingLane(options, 0),
  gathering: new SettlingLane(options, BACKLOG_GATHERS_MS),
})

/** One statement at a time: what ends while it runs goes with the next one. */
export class SettlingLane<Outcome> {
  #pending: Outcome[] = []
  #writing: Promise<void> | null = null
  #failure: unknown
  #timer: NodeJS.Timeout | undefined
  readonly #options: SettlingOptions<Outcome>
  readonly #gatherMs: number

  /** @param gatherMs the longest that an outcome waits for others; 0: it does not wait */
  constructor(options: SettlingOptions<Outcome>, gatherMs: number) {
    this.#options = options
    this.#gatherMs = gatherMs
  }

  add(outcome: Outcome): void {
    this.#pending.push(outcome)
    if (this.#writing !== null) return
    if (this.#gatherMs === 0 || this.#pending.length >= GATHER_ROWS) this.#start()
    else this.#timer ??= setTimeout(() => this.#start(), this.#gatherMs)
  }

  async finish(): Promise<void> {
    this.#start()
    await this.#writing
    if (this.#failure !== undefined) throw this.#failure
  }

  #start(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#writing === null && this.#pending.length > 0) this.#writing = this.#write()
  }

  async #write(): Promise<void> {
    const { settle, onSettled } = this.#options
    while (this.#pending.length > 0) {
      const outcomes = this.#pending.splice(0, MAX_ROWS)
      try {
        await patiently('a settlement', () => settle(outcomes), this.#options)
      } catch (error) {
        // finish() tells it.
        this.#failure ??= error
      }
      onSettled?.(outcomes)
    }
    // Not by a `finally()` of its promise, which comes later: what is added until then would lie.
    this.#writing = null
  }
}
