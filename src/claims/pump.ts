/**
 * Works off stored rows of all integrations, for minutes. It claims some, hands them to the queue of their integration, stores their
 * outcomes and looks again, until nothing is left and its promise to look is kept.
 *
 * Rule: docs/behaviour/webhooks.md, "The pump".
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { patiently, withTimeLimit } from '../framework/waiting.ts'
import type { ClaimRoom } from './claimed-rows.ts'
import type { PumpCall, PumpEnd } from './pump-jobs.ts'
import type { Queued } from './queues.ts'
import { Queues } from './queues.ts'
import { SAY_EVERY_MS, SILENCE_SECONDS } from './serving.ts'
import { Settling } from './settling.ts'

/** The time between two looks: while rows come; after an empty look; a while after the last row; and while only slow handlers run. */
const AFTER_SOME_MS = 8
const AFTER_NONE_MS = 12
const QUIET_MS = 20
const SLOW_HANDLERS_MS = 60
const QUIET_AFTER_MS = 2_000
/** The database is away. */
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 2_000
/** How often it looks for rows of pumps that have died. */
const RESCUE_EVERY_MS = 2_500
/** The promise is renewed while rows are held, and for some seconds after the last one: to start another pump takes 40 ms. */
const RENEW_EVERY_MS = 1_000
const LINGER_MS = 3_000
/** How long it promises to look again. */
const PROMISE_MS = 2_000
/** Another pump goes on after this time: histories, releases and load move on. */
const SESSION_MS = 10 * 60_000
/** It has more rows than its lanes take for this time: it asks for another pump, and again after the second time. */
const PRESSED_MS = 1_000
const HELP_EVERY_MS = 5_000
/** A statement that renews the claim has this long. Then it is sent again, on another connection. */
const SAY_SECONDS = 5
/** A successor could not be asked for. */
const ASK_AGAIN_MS = 1_000
/** How often a pump that leaves asks whether another pump looks by now. */
const RELIEF_EVERY_MS = 50
/** A pump whose worker stops goes on for this time at most, until its successor looks. */
export const HANDOVER_MS = 1_000

export interface PumpedRow {
  readonly id: number
}

/** What a look found. */
export interface Looked<Row> {
  readonly rows: readonly Queued<Row>[]
  readonly walked: number
  readonly upto: number
}

/** What is pumped: its statements, and its handler. */
export interface Source<Row, Outcome> {
  claim(room: ClaimRoom): Promise<Looked<Row>>
  /** Never throws. Null: the row was not handled, and goes back. @param lost aborted when another worker has the row */
  run(row: Row, lost: AbortSignal): Promise<Outcome | null>
  settle(outcomes: readonly Outcome[]): Promise<void>
  handBack(rows: readonly Row[]): Promise<unknown>
  /** Ids of the rows that its claim still holds. */
  heldIds(): Promise<ReadonlySet<number>>
  /** Gives rows of its claim back that it does not know: a claim was stored, and its answer was lost. @param known ids */
  handBackUnknown(known: ReadonlySet<number>): Promise<void>
}

/** How other processes know a pump. Left out: it ends when nothing is left. */
export interface Standing {
  /** Promises to look once more in `ms` milliseconds. */
  promise(ms: number): Promise<void>
  /** For how many milliseconds the promise of another pump holds: this pump keeps it as well. */
  promisedFor(): Promise<number>
  /** Whether another pump, or a newer one, has made the promise that holds. */
  isRelieved(by: 'any' | 'newer'): Promise<boolean>
  /** The last look has been made. */
  keptPromise(): Promise<void>
  /** Says that its claim is served. @returns whether it was not served until now: the first time, or after too long a silence */
  serve(seconds: number): Promise<{ readonly hasLapsed: boolean }>
  ended(): Promise<void>
  /** Rescues the rows of dead pumps. @returns whether it has to look again, since another pump may be dead */
  rescue(): Promise<{ readonly looksAgain: boolean }>
  /** Asks for another pump. @throws when Temporal does not answer */
  call(needs: PumpCall['needs']): Promise<void>
}

export interface PumpOptions<Row, Outcome> {
  readonly source: Source<Row, Outcome>
  readonly standing?: Standing
  readonly concurrency: number
  /** Aborted when the activity ends: nothing new starts, and a statement that fails is not tried again. */
  readonly begun: AbortSignal
  /** Aborted when its activity is cancelled: nothing new starts, and what has run is stored all the same. */
  readonly cancelled?: AbortSignal
  /** Aborted when Temporal takes it for dead: it leaves. */
  readonly forgotten?: AbortSignal
  /** Aborted when its worker begins to stop: another pump is to go on, and until that one looks this one does. */
  readonly stopping?: AbortSignal
  /** An earlier try has ended without a result: another pump was opened meanwhile, most likely, and this one leaves to that one. */
  readonly isRetry?: boolean
  /** Aborted when what still runs is given up. */
  readonly enough: AbortSignal
  readonly logger: Logger
  /** Passes the time between two looks, which `ends` cuts short. Default: by Node's timers. */
  readonly rest?: (ms: number, ends: AbortSignal) => Promise<unknown>
}

/** A row that has ended. */
interface Ended<Row, Outcome> {
  readonly queued: Queued<Row>
  readonly outcome: Outcome
}

export class Pump<Row extends PumpedRow, Outcome> {
  readonly #options: PumpOptions<Row, Outcome>
  readonly #queues: Queues<Row>
  readonly #settling: Settling<Ended<Row, Outcome>>
  readonly #running = new Map<Row, AbortController>()
  #lanes = new Set<Promise<void>>()
  #handingBack: Promise<unknown> = Promise.resolve()
  /** Rows on their way back to `pending`. */
  #goingBack = 0
  /** Rows that it has claimed and that are neither stored nor back. */
  readonly #known = new Set<number>()
  #mayHoldUnknown = false
  readonly #startedAt = performance.now()
  #after = 0
  /** The looks of one walk over all integrations. A walk may need several, also over rows that must not be claimed. */
  #round = { beganAt: 0, isEmpty: true }
  #promisedUntil = 0
  #renewedAt = Number.NEGATIVE_INFINITY
  #lastRowAt = Number.NEGATIVE_INFINITY
  #pressedSince: number | null = null
  #calledAt = Number.NEGATIVE_INFINITY
  #helpEveryMs = HELP_EVERY_MS
  /** Until another pump's promise is over; null: it has not been asked for. */
  #inherits: Promise<void> | null = null
  #isCalling = false
  #hasCalledSuccessor = false
  #askedForReliefAt = Number.NEGATIVE_INFINITY
  /** When it has seen that its worker stops. */
  #stoppingSince: number | null = null
  /** Rows of a dead one may wait for it. */
  #mustRescue: boolean
  /** By performance.now(): since then no dead one is left. A look that began earlier may have missed the rows that were set apart. */
  #rescuedAt = Number.NEGATIVE_INFINITY
  /** Aborted when nothing new starts. */
  readonly #ends: AbortSignal
  /** By performance.now(). Until then its rows are its own; after it nothing is claimed and nothing starts. */
  #servedUntil: number
  #serving: Promise<void> | null = null
  /** Others may have taken rows away. */
  #mayHaveLost = false

  constructor(options: PumpOptions<Row, Outcome>) {
    const { source, standing, concurrency, begun, cancelled, stopping, logger } = options
    this.#options = options
    const handsOver = standing !== undefined
    this.#ends = AbortSignal.any(
      [begun, cancelled, handsOver ? undefined : stopping].filter((signal) => signal !== undefined),
    )
    this.#mustRescue = standing !== undefined
    this.#servedUntil = standing === undefined ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY
    this.#queues = new Queues(concurrency)
    this.#settling = new Settling({
      settle: (ended) => source.settle(ended.map(({ outcome }) => outcome)),
      onSettled: (ended) => {
        for (const { queued } of ended) {
          this.#known.delete(queued.row.id)
          this.#queues.settled(queued.queue)
        }
        for (const queue of new Set(ended.map(({ queued }) => queued.queue))) this.#startRows(queue)
      },
      signal: begun,
      logger,
    })
  }

  /** For people. */
  get figures(): { held: number; queues: number; running: number } {
    return { held: this.#queues.held, queues: this.#queues.queues, running: this.#running.size }
  }

  /** @throws the last error when the end came before an outcome could be stored */
  async run(): Promise<PumpEnd> {
    const { enough, standing } = this.#options
    const giveUp = (): void => {
      for (const controller of this.#running.values()) controller.abort(enough.reason)
    }
    enough.addEventListener('abort', giveUp, { once: true })
    const saying = standing && setInterval(() => void this.#keepServing(standing), SAY_EVERY_MS)
    const rescuing = standing && setInterval(() => void this.#rescue(standing), RESCUE_EVERY_MS)
    try {
      if (standing !== undefined) {
        void this.#rescue(standing)
        this.#inherits = this.#inherit(standing)
      }
      const end = await this.#untilEnd()
      await this.#drain()
      return end
    } finally {
      clearInterval(saying)
      clearInterval(rescuing)
      enough.removeEventListener('abort', giveUp)
      await standing?.ended().catch(() => {})
    }
  }

  async #untilEnd(): Promise<PumpEnd> {
    const { standing, logger } = this.#options
    let retryMs = FIRST_RETRY_MS
    for (;;) {
      if (this.#ends.aborted || this.#isHandoverOver()) return 'stopped'
      try {
        if (standing !== undefined && (await this.#isRelieved(standing))) return 'relieved'
        const isOver = await this.#look()
        retryMs = FIRST_RETRY_MS
        if (isOver) return 'empty'
      } catch (error) {
        logger.warn({ event: 'database.retried', error: errorLine(error, 300) }, 'a look failed; it is tried again')
        this.#mayHoldUnknown = true
        await this.#pause(retryMs)
        retryMs = Math.min(retryMs * 2, LAST_RETRY_MS)
        continue
      }
      if (standing !== undefined) this.#callWhenNeeded(standing)
      await this.#pause(this.#restMs())
    }
  }

  /** @returns whether nothing is left to do, or to wait for */
  async #look(): Promise<boolean> {
    const { source, standing } = this.#options
    if (standing !== undefined) await this.#serveAndPromise(standing)
    if (this.#mayHoldUnknown) await source.handBackUnknown(this.#known)
    this.#mayHoldUnknown = false
    this.#handBack(this.#queues.takeLate())
    const room = { ...this.#queues.room(), after: this.#after }
    const beganAt = performance.now()
    // While it holds rows, the claim leaves out those that run alone. They may have settled before its answer.
    const wasHolding = this.#known.size > 0
    const looked = await source.claim(room)
    const next = nextClaim(looked, room)
    this.#after = next.after
    this.#takeIn(looked.rows)
    if (room.after === 0) this.#round = { beganAt, isEmpty: true }
    const isIdle = looked.rows.length === 0 && !wasHolding && this.#queues.held === 0 && this.#goingBack === 0
    if (!isIdle || room.isPartial) this.#round.isEmpty = false
    return next.reachedEnd && (await this.#mayEnd())
  }

  /** Renews what others know of this pump, where it is due: that it serves its claim, and that it looks again. */
  async #serveAndPromise(standing: Standing): Promise<void> {
    if (performance.now() >= this.#servedUntil) await this.#serve(standing)
    const isBusy = this.#queues.held > 0 || performance.now() - this.#lastRowAt < LINGER_MS
    const isDue = isBusy && performance.now() - this.#renewedAt >= RENEW_EVERY_MS
    if (isDue && !this.#isLeaving) await this.#promise(standing)
  }

  #takeIn(rows: readonly Queued<Row>[]): void {
    if (rows.length > 0) this.#lastRowAt = performance.now()
    for (const { row } of rows) this.#known.add(row.id)
    this.#queues.add(rows)
    // Also those whose rest is over.
    for (const queue of this.#queues.waiting()) this.#startRows(queue)
  }

  /** At the end of a round: whether it has found nothing, and no promise is open. */
  async #mayEnd(): Promise<boolean> {
    const { standing } = this.#options
    if (!this.#round.isEmpty || this.#mustRescue || this.#round.beganAt <= this.#rescuedAt) return false
    if (standing === undefined) return true
    await this.#inherits
    if (this.#round.beganAt <= this.#promisedUntil) return false
    // Either the first round found nothing, which answers the wake-up. Or a promise was made, and this round keeps it.
    await standing.keptPromise()
    return true
  }

  async #promise(standing: Standing): Promise<void> {
    await standing.promise(PROMISE_MS)
    this.#renewedAt = performance.now()
    // Counted from the answer: the promise ends no later than this.
    this.#promisedUntil = this.#renewedAt + PROMISE_MS
  }

  /** Another pump is to go on. Until it looks, this pump does, and makes no more promises. */
  get #isLeaving(): boolean {
    return this.#hasCalledSuccessor || this.#options.forgotten?.aborted === true
  }

  /** Whether its worker has waited for its successor for long enough: it may be the only worker. */
  #isHandoverOver(): boolean {
    const { standing, stopping } = this.#options
    if (standing === undefined || stopping?.aborted !== true) return false
    if (this.#stoppingSince === null) {
      this.#stoppingSince = performance.now()
      // It asks for a successor at once, even if it has just asked for help.
      this.#calledAt = Number.NEGATIVE_INFINITY
    }
    return performance.now() - this.#stoppingSince >= HANDOVER_MS
  }

  async #isRelieved(standing: Standing): Promise<boolean> {
    const isSpare = this.#options.isRetry === true && !this.#mustRescue
    if (!this.#isLeaving && !isSpare) return false
    // A spare one asks just before it renews its own promise, which would hide that of a newer pump.
    const [since, everyMs] = this.#isLeaving
      ? [this.#askedForReliefAt, RELIEF_EVERY_MS]
      : [Math.max(this.#askedForReliefAt, this.#renewedAt), RENEW_EVERY_MS]
    if (performance.now() - since < everyMs) return false
    this.#askedForReliefAt = performance.now()
    return standing.isRelieved(this.#isLeaving ? 'any' : 'newer')
  }

  #restMs(): number {
    const sinceRows = performance.now() - this.#lastRowAt
    if (sinceRows < AFTER_SOME_MS) return AFTER_SOME_MS
    if (sinceRows < QUIET_AFTER_MS) return AFTER_NONE_MS
    return this.#queues.held === 0 ? QUIET_MS : SLOW_HANDLERS_MS
  }

  async #pause(ms: number): Promise<void> {
    const { rest = (restMs, signal) => sleep(restMs, undefined, { signal }) } = this.#options
    await rest(ms, this.#ends).catch(() => {})
  }

  #startRows(queue: number): void {
    while (!this.#ends.aborted && performance.now() < this.#servedUntil) {
      const queued = this.#queues.take(queue)
      if (queued === null) return
      const lane = this.#runRow(queued)
      this.#lanes.add(lane)
      void lane.finally(() => this.#lanes.delete(lane))
    }
  }

  async #runRow(queued: Queued<Row>): Promise<void> {
    const { row, queue, isOrdered = false } = queued
    const controller = new AbortController()
    this.#running.set(row, controller)
    const outcome = await this.#options.source.run(row, controller.signal)
    this.#running.delete(row)
    this.#queues.done(queued, outcome !== null)
    if (outcome === null) this.#handBack([row])
    else this.#settling.add({ queued, outcome }, { isBacklog: this.#queues.hasBacklog(queue), isOrdered })
    this.#startRows(queue)
  }

  #handBack(rows: readonly Row[]): void {
    if (rows.length === 0) return
    const { source, begun, logger } = this.#options
    const back = (): Promise<unknown> =>
      patiently('handing rows back', () => source.handBack(rows), { signal: begun, logger })
    this.#goingBack += rows.length
    this.#handingBack = this.#handingBack.then(back).finally(() => {
      this.#goingBack -= rows.length
      for (const { id } of rows) this.#known.delete(id)
    })
    // #drain() tells it.
    this.#handingBack.catch(() => {})
  }

  /** After the last claim: rows that have not started go back, running rows end, and all outcomes are stored. */
  async #drain(): Promise<void> {
    this.#handBack(this.#queues.takeOut())
    while (this.#lanes.size > 0) await Promise.all(this.#lanes)
    await this.#settling.finish()
    await this.#handingBack
  }

  /** Callers at the same moment share one answer. */
  #serve(standing: Standing): Promise<void> {
    this.#serving ??= this.#say(standing).finally(() => {
      this.#serving = null
    })
    return this.#serving
  }

  async #say(standing: Standing): Promise<void> {
    const askedAt = performance.now()
    const late = (): Error => new Error(`no answer within ${SAY_SECONDS} s`)
    const { hasLapsed } = await withTimeLimit(SAY_SECONDS, late, () => standing.serve(SILENCE_SECONDS))
    this.#mayHaveLost ||= hasLapsed
    if (this.#mayHaveLost) await this.#dropLost()
    this.#mayHaveLost = false
    this.#servedUntil = askedAt + SILENCE_SECONDS * 1_000
  }

  /**
   * Takes over the promise of another pump, which relieves a pump that leaves. Without an answer it does not linger: a process that
   * relied on the promise signals a moment after its end.
   */
  async #inherit(standing: Standing): Promise<void> {
    const ms = await standing.promisedFor().catch(() => 0)
    this.#promisedUntil = Math.max(this.#promisedUntil, performance.now() + ms)
    // Else it promises as soon as it has a row.
    if (ms > 0) await this.#promise(standing).catch(() => {})
  }

  async #keepServing(standing: Standing): Promise<void> {
    try {
      await this.#serve(standing)
    } catch (error) {
      this.#options.logger.warn(
        { event: 'database.retried', error: errorLine(error, 300) },
        'the claim of a pump could not be renewed; it is tried again',
      )
    }
  }

  async #rescue(standing: Standing): Promise<void> {
    if (this.#ends.aborted) return
    try {
      const { looksAgain } = await standing.rescue()
      if (this.#mustRescue && !looksAgain) this.#rescuedAt = performance.now()
      this.#mustRescue = looksAgain
    } catch (error) {
      this.#options.logger.warn(
        { event: 'database.retried', error: errorLine(error, 300) },
        'rows of dead pumps could not be looked for; it is tried again',
      )
    }
  }

  /** After a silence other workers may have taken rows away. Those rows do not start, and their handlers end here. */
  async #dropLost(): Promise<void> {
    // Rows that are claimed meanwhile may be missing in the answer.
    const asked = new Set([...this.#queues.unstarted(), ...this.#running.keys()])
    if (asked.size === 0) return
    const held = await this.#options.source.heldIds()
    const isLost = (row: Row): boolean => asked.has(row) && !held.has(row.id)
    for (const { id } of this.#queues.takeOut(({ row }) => isLost(row))) this.#known.delete(id)
    for (const [row, controller] of this.#running)
      if (isLost(row)) controller.abort(new Error('this worker was silent for too long, and the row was taken from it'))
  }

  #callWhenNeeded(standing: Standing): void {
    const now = performance.now()
    this.#pressedSince = this.#queues.isPressed ? (this.#pressedSince ?? now) : null
    if (this.#isLeaving) return
    const isOver = this.#stoppingSince !== null || now - this.#startedAt >= SESSION_MS
    const isPressed = this.#pressedSince !== null && now - this.#pressedSince >= PRESSED_MS
    if (this.#isCalling || !(isOver || isPressed)) return
    if (now - this.#calledAt < (isOver ? ASK_AGAIN_MS : this.#helpEveryMs)) return
    // Each call is a signal. Four pumps at most work, so later calls are rarer and rarer.
    if (!isOver) this.#helpEveryMs = Number.isFinite(this.#calledAt) ? this.#helpEveryMs * 2 : this.#helpEveryMs
    this.#calledAt = now
    this.#isCalling = true
    void this.#call(standing, isOver ? 'successor' : 'help').then((wasHeard) => {
      this.#isCalling = false
      // Without a successor it goes on: Temporal may be away for long.
      if (isOver && wasHeard) this.#hasCalledSuccessor = true
    })
  }

  async #call(standing: Standing, needs: PumpCall['needs']): Promise<boolean> {
    try {
      await standing.call(needs)
      return true
    } catch (error) {
      this.#options.logger.warn(
        { event: 'inbox.call_failed', needs, error: errorLine(error, 300) },
        'a pump could not ask for another one',
      )
      return false
    }
  }
}

/** Where the next claim begins: behind this one, or at the beginning if this one has reached the end of the walk. */
function nextClaim<Row>({ rows, walked, upto }: Looked<Row>, room: ClaimRoom): { after: number; reachedEnd: boolean } {
  const served = servedUpto(rows, room.after, upto)
  // A claim that its number of rows has cut goes on behind the last one that got any: those behind it had no turn.
  if (rows.length >= room.rows && served < upto) return { after: served, reachedEnd: false }
  return walked < room.integrations ? { after: 0, reachedEnd: true } : { after: upto, reachedEnd: false }
}

/** The last queue of a walk that rows were claimed of; without rows its beginning. Rows that had lost a worker may be of others. */
function servedUpto<Row>(rows: readonly Queued<Row>[], after: number, upto: number): number {
  return rows.reduce((served, { queue }) => (queue <= upto ? Math.max(served, queue) : served), after)
}
