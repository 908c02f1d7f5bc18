/**
 * The units that this process has of the budgets that integrations share.
 *
 * One statement reports what is back and asks for all callers of the process, whatever integration they belong to; while some wait,
 * it is sent at a fixed pace. A unit counts from the moment it is given out until a whole window after its call has ended, so the
 * provider never sees more than the limit, however long calls are on their way.
 * Rule: docs/behaviour/shared-budgets.md.
 */
import { randomUUID } from 'node:crypto'
import type { SharedAnswer, SharedAsk } from './shared-queries.ts'
import type { Admission } from './state-rules.ts'

/** How old the answer may be that gave a unit when its call begins: well within the silence after which others take it for used. */
const USABLE_MS = 5_000
/** Units that were given for waiting callers and are not fetched within this time are given back. */
const FETCHED_WITHIN_MS = 500
/** Units for calls to come that lie unused for this long are given back. */
const IDLE_MS = 1_000
const MAX_UNITS_AHEAD = 100
const RETRY_AFTER_FAULT_MS = 1_000

/** What a provider's `rateLimitScope()` comes to. */
export interface Scope {
  /** Key of the budget in the cache table, prefix included. */
  readonly key: string
  /** For people; never a secret. */
  readonly name: string
  readonly limit: number
  readonly seconds: number
}

/** One call's share of the budget. Exactly one of `done` and `giveBack` is called. */
export interface Unit {
  readonly scope: Scope
  /** The call has ended. */
  done(): void
  /** No call was made. */
  giveBack(): void
}

export type Taken = { readonly units: readonly Unit[]; readonly wait: Extract<Admission, { kind: 'shared' }> | null }

/** How a budget stands, for /metrics. */
export interface BudgetStanding {
  readonly budget: string
  readonly limit: number
  readonly used: number
  /** Integrations that wait, of all processes. */
  readonly waiting: number
}

/** What a budget knows of the lines of its process. */
export interface Lines {
  /** Callers of the integration that stand in line. */
  waiting(integrationId: number): number
  /** Other callers of it have their question under way. */
  isAsking(integrationId: number): boolean
  /** The line asks at once. */
  wake(integrationId: number): void
}

type Take = (
  scope: Scope,
  asked: Pick<SharedAsk, 'process' | 'done' | 'out' | 'ids' | 'wants' | 'more'>,
) => Promise<SharedAnswer>

export class SharedBudgets {
  readonly #budgets = new Map<string, SharedBudget>()
  readonly #take: Take
  readonly #lines: Lines
  readonly #onFault: (scope: Scope, error: unknown) => void

  /**
   * @param take one statement
   * @param onFault of a statement that no caller has asked for
   */
  constructor(take: Take, lines: Lines, onFault: (scope: Scope, error: unknown) => void) {
    this.#take = take
    this.#lines = lines
    this.#onFault = onFault
  }

  /** Takes up to `callers` units. If there is none, says how long to wait. */
  take(scope: Scope, integrationId: number, callers: number): Promise<Taken> {
    return this.#of(scope).take(integrationId, callers)
  }

  /** For callers that got no unit when others did. */
  wait(scope: Scope, integrationId: number): Extract<Admission, { kind: 'shared' }> {
    return this.#of(scope).wait(integrationId)
  }

  /**
   * For news of this process itself: no unit in hand is used any more, nor one of a statement that is under way.
   *
   * @param tell Postgres. @throws what it throws
   */
  quiet(scope: Scope, tell: () => Promise<void>): Promise<void> {
    return this.#of(scope).quiet(tell)
  }

  /** As the last answers said. */
  standing(): BudgetStanding[] {
    return [...this.#budgets.values()].flatMap((budget) => budget.standing() ?? [])
  }

  /** Reports what is back; nothing is asked for afterwards. */
  async close(): Promise<void> {
    await Promise.all([...this.#budgets.values()].map((budget) => budget.close()))
  }

  #of(scope: Scope): SharedBudget {
    const known = this.#budgets.get(scope.key)
    if (known !== undefined) {
      known.scope = scope
      return known
    }
    const budget = new SharedBudget(scope, this.#take, this.#lines, this.#onFault)
    this.#budgets.set(scope.key, budget)
    return budget
  }
}

/** Moments are those of `performance.now()`. */
class SharedBudget {
  readonly #process = randomUUID()
  /** Units for calls to come. */
  #hand = 0
  #usedHandAt = 0
  /** Units for waiting callers of an integration. */
  readonly #aside = new Map<number, { units: number; readonly at: number }>()
  /** Integrations whose question waits for a statement, and how many units it wants. */
  readonly #asking = new Map<number, number>()
  /** Integrations that wait for a unit, the one that was served longest ago first; callers that their last question left without. */
  readonly #waiting = new Map<number, number>()
  #done = 0
  #inFlight = 0
  #usableUntil = 0
  /** Quiets of this process that Postgres does not know yet, and when it knew the last one. */
  readonly #quiets = { untold: 0, toldAt: 0 }
  #calls = { startedAt: 0, now: 0, before: 0 }
  /** Null: none yet, or the last statement has failed. */
  #answer: { readonly of: SharedAnswer; readonly at: number } | null = null
  #hasFailed = false
  #underWay: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #isClosed = false

  constructor(
    public scope: Scope,
    readonly ask: Take,
    readonly lines: Lines,
    readonly onFault: (scope: Scope, error: unknown) => void,
  ) {}

  async take(id: number, callers: number): Promise<Taken> {
    const units = this.#inHand(id, callers)
    if (units.length < callers && !this.#isScarce()) {
      const wanted = callers - units.length
      this.#asking.set(id, wanted)
      // They are the ones that ask now.
      if (this.#waiting.has(id)) this.#waiting.set(id, 0)
      try {
        // The one under way was sent before. The next one may be sent by another integration's question.
        await this.#underWay?.catch(() => {})
        await (this.#asking.has(id) ? this.#send() : this.#underWay)
      } catch (error) {
        for (const unit of units) unit.giveBack()
        throw error
      }
      units.push(...this.#inHand(id, wanted))
    }
    // The others stay in line.
    const left = callers - units.length
    if (left > 0 || this.#waiting.has(id)) this.#waiting.set(id, left)
    this.#calls.now += units.length
    this.#plan()
    return { units, wait: units.length > 0 ? null : this.wait(id) }
  }

  /** Null: nothing has been asked for lately. */
  standing(): BudgetStanding | null {
    if (this.#answer === null || performance.now() - this.#answer.at > this.#answer.of.seconds * 1_000) return null
    const { limit, used, waiting } = this.#answer.of
    return { budget: this.scope.name, limit, used, waiting }
  }

  async quiet(tell: () => Promise<void>): Promise<void> {
    this.#usableUntil = 0
    this.#answer = null
    this.#quiets.untold += 1
    try {
      await tell()
    } finally {
      this.#quiets.untold -= 1
      this.#quiets.toldAt = performance.now()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#underWay?.catch(() => {})
    if (this.#done + this.#out() === 0) return
    try {
      await this.#send()
    } catch (error) {
      this.onFault(this.scope, error)
    }
  }

  #unit(): Unit {
    const { scope } = this
    this.#inFlight += 1
    return {
      scope,
      done: () => {
        this.#inFlight -= 1
        this.#done += 1
        this.#plan()
      },
      giveBack: () => {
        this.#inFlight -= 1
        this.#hand += 1
        this.#plan()
      },
    }
  }

  /** Takes units that are in hand; those that were given too long ago are not used. */
  #inHand(id: number, callers: number): Unit[] {
    const now = performance.now()
    if (now >= this.#usableUntil) return []
    const aside = this.#aside.get(id)
    const own = Math.min(aside?.units ?? 0, callers)
    if (aside !== undefined) {
      aside.units -= own
      if (aside.units === 0) this.#aside.delete(id)
    }
    const spare = this.#waiting.size === 0 && !this.#isScarce() ? Math.min(this.#hand, callers - own) : 0
    this.#hand -= spare
    if (spare > 0) this.#usedHandAt = now
    return Array.from({ length: own + spare }, () => this.#unit())
  }

  /** Others wait, or the provider has asked for quiet: a statement more would get nothing. */
  #isScarce(): boolean {
    if (this.#quiets.untold > 0) return true
    if (this.#answer === null) return false
    const { of, at } = this.#answer
    const age = performance.now() - at
    if (of.quietMs !== null && age < of.quietMs) return true
    return of.waiting > 0 && age < 2 * this.#pauseMs()
  }

  /** As long as a round takes: by then each integration that waits has had a unit. */
  wait(id: number): Extract<Admission, { kind: 'shared' }> {
    // They came while its question was under way.
    if (performance.now() < this.#usableUntil && this.#aside.has(id))
      return { kind: 'shared', retryAfterMs: 0, limit: null }
    if (this.#answer === null) return { kind: 'shared', retryAfterMs: this.#pauseMs(), limit: null }
    const { of, at } = this.#answer
    const { limit, seconds, waiting, retryMs, quietMs } = of
    const age = performance.now() - at
    const quiet = quietMs === null ? 0 : quietMs - age
    if (quiet > 0) return { kind: 'shared', retryAfterMs: Math.ceil(quiet), limit: null }
    const others = Math.max(waiting, this.#waiting.size)
    const roundMs = Math.ceil((others * seconds * 1_000) / limit)
    const retryAfterMs = Math.max(retryMs - age, roundMs, this.#pauseMs())
    return { kind: 'shared', retryAfterMs, limit: { limit, seconds, window: 'sliding' } }
  }

  /** The next statement is sent while integrations wait or units are out: it gives these back, and shows others that we live. */
  #plan(): void {
    if (this.#isClosed || this.#timer !== null || this.#underWay !== null) return
    if (this.#waiting.size + this.#done + this.#out() === 0) return
    const isWaitedFor = this.#waiting.size > 0 || (this.#answer?.of.waiting ?? 0) > 0
    const everyMs = this.#hasFailed ? RETRY_AFTER_FAULT_MS : isWaitedFor ? this.#pauseMs() : this.#reportMs()
    const dueMs = this.#answer === null ? everyMs : this.#answer.at + everyMs - performance.now()
    this.#timer = setTimeout(
      () => {
        this.#timer = null
        this.#send().catch((error: unknown) => this.onFault(this.scope, error))
      },
      Math.max(dueMs, 0),
    )
    // A process that ends otherwise need not wait for its report: its silence is one.
    this.#timer.unref()
  }

  /** While some wait. */
  #pauseMs(): number {
    return Math.min(Math.max(this.scope.seconds * 5, 50), 250)
  }

  #reportMs(): number {
    return Math.min(Math.max(this.scope.seconds * 50, 50), 1_000)
  }

  #out(): number {
    let units = this.#hand + this.#inFlight
    for (const aside of this.#aside.values()) units += aside.units
    return units
  }

  /** One at a time. @throws what Postgres says */
  #send(): Promise<void> {
    if (this.#underWay !== null) return this.#underWay
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const work = this.#sent().finally(() => {
      this.#underWay = null
      this.#plan()
    })
    this.#underWay = work
    return work
  }

  async #sent(): Promise<void> {
    const askedAt = performance.now()
    this.#dropUnused(askedAt)
    const wants = this.#isClosed ? new Map<number, number>() : this.#wanted()
    const done = this.#done
    this.#asking.clear()
    let answer: SharedAnswer
    try {
      const asked = {
        done,
        out: this.#out(),
        ids: [...wants.keys()],
        wants: [...wants.values()],
        more: this.#ahead(askedAt),
      }
      this.#done = 0
      answer = await this.ask(this.scope, { process: this.#process, ...asked })
    } catch (error) {
      // Perhaps it was written all the same: reported twice, a unit comes back late, never early.
      this.#done += done
      this.#answer = null
      this.#hasFailed = true
      throw error
    }
    this.#answer = { of: answer, at: askedAt }
    this.#hasFailed = false
    // Postgres may have run it before it was told.
    const knowsOfQuiets = this.#quiets.untold === 0 && askedAt >= this.#quiets.toldAt
    this.#usableUntil = knowsOfQuiets && answer.quietMs === null ? askedAt + USABLE_MS : 0
    this.#hand += answer.more
    if (answer.more > 0) this.#usedHandAt = askedAt
    for (const [place, id] of [...wants.keys()].entries()) {
      const units = answer.gave[place] ?? 0
      if (units > 0) this.#aside.set(id, { units: units + (this.#aside.get(id)?.units ?? 0), at: askedAt })
      if (units === 0) continue
      // Units beyond a round go to the first ones: they must not be the same ones each time.
      const left = this.#waiting.get(id) ?? 0
      this.#waiting.delete(id)
      if (units < (wants.get(id) ?? 0)) this.#waiting.set(id, left)
      this.lines.wake(id)
    }
  }

  #wanted(): Map<number, number> {
    const wanted = new Map<number, number>()
    for (const id of new Set([...this.#waiting.keys(), ...this.#asking.keys()])) {
      // Callers that got no unit beside others that did come back into the line when the integration's own gates have answered.
      const beside = this.lines.isAsking(id) ? (this.#waiting.get(id) ?? 0) : 0
      const waiting = this.lines.waiting(id) + beside
      const callers = Math.max(this.#asking.get(id) ?? 0, waiting) - (this.#aside.get(id)?.units ?? 0)
      if (callers > 0) wanted.set(id, callers)
      else this.#waiting.delete(id)
    }
    return wanted
  }

  #dropUnused(now: number): void {
    for (const [id, { at }] of this.#aside) {
      // It fetches them when the integration's own gates have answered.
      if (this.lines.isAsking(id)) continue
      if (now - at >= FETCHED_WITHIN_MS) this.#aside.delete(id)
      else this.lines.wake(id)
    }
    const isUsable = now < this.#usableUntil && !this.#isScarce() && now - this.#usedHandAt < IDLE_MS
    if (!isUsable) this.#hand = 0
    if (now >= this.#usableUntil) this.#aside.clear()
  }

  /** As many units as calls were made between the last two statements, less what is in hand. */
  #ahead(now: number): number {
    const { startedAt, now: calls, before } = this.#calls
    if (now - startedAt >= this.#reportMs()) this.#calls = { startedAt: now, now: 0, before: calls }
    const expected = Math.min(Math.max(calls, before), MAX_UNITS_AHEAD)
    if (this.#isClosed || this.#waiting.size > 0) return 0
    return Math.max(0, expected - this.#hand)
  }
}
