import type { ActivityInterfaceFor, ActivityOptions } from '@temporalio/workflow'
import { condition, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { ItemBatch, ItemBatchResult } from '../activities/sync-items.ts'
import { claimOf } from '../core/claim.ts'
import type { LastFailure } from '../core/sync-jobs.ts'
import { BATCH_ROWS } from '../core/sync-jobs.ts'
import { batch } from './activity-options.ts'
import { hasLongHistory } from './long-history.ts'

const MAX_LANES = 4
/** Items that wait for another attempt; a full list stops the intake until some are done. */
const MAX_WAITING = 1_000
/**
 * At most this number of them are items whose time had not come, for what they refer to is missing: it may be among those that are
 * not taken in yet, which a full list would keep out. Others of that kind wait until the finalisation names them.
 */
const MAX_PUT_OFF = 500
/** Items whose waits end within the same step of so long run in one batch, by one timer. */
const WAKE_STEP_MS = 250

export interface WaitingItem {
  readonly id: number
  /** Milliseconds since the epoch. */
  readonly dueAt: number
}

/** How far a run's items are; a run that goes on in a new history takes it along. */
export interface ItemRunState {
  /** Pending rows that no batch has had yet, as far as is known: the finalisation knows. */
  readonly left: number
  readonly lanes: number
  readonly succeeded: number
  readonly failed: number
  readonly waiting: readonly WaitingItem[]
  /** That wait beyond those: the finalisation names them. Not there: none. */
  readonly unlisted?: number
  /** Not there: no attempt has failed yet. */
  readonly lastFailure?: LastFailure
  /** Milliseconds since the epoch. Nothing new is taken in before: the provider's limit was met. */
  readonly intakeFrom: number
}

/** Before the first batch. */
export function itemsToDo(
  pending: number,
  before: { succeeded: number; failed: number; waiting: readonly { id: number; seconds: number }[] } = {
    succeeded: 0,
    failed: 0,
    waiting: [],
  },
): ItemRunState {
  const { succeeded, failed, waiting } = before
  return {
    left: pending,
    lanes: Math.max(1, Math.min(MAX_LANES, Math.ceil((pending + waiting.length) / BATCH_ROWS))),
    succeeded,
    failed,
    waiting: waiting.map(dueFromNow),
    intakeFrom: 0,
  }
}

/** What a batch came to. */
export function afterBatch(before: ItemRunState, take: ItemBatch['take'], result: ItemBatchResult): ItemRunState {
  const { left, succeeded, failed, waiting, intakeFrom, unlisted = 0 } = before
  const had = result.succeeded + result.failed + result.waiting.length
  let room = MAX_PUT_OFF - waiting.length
  const listed = result.waiting.filter(({ isPutOff = false }) => !isPutOff || room-- > 0)
  const more = result.waiting.length - listed.length
  return {
    ...before,
    ...(take.kind === 'pending' ? { left: result.claimed < take.limit ? 0 : Math.max(0, left - had) } : {}),
    succeeded: succeeded + result.succeeded,
    failed: failed + result.failed,
    waiting: [...waiting, ...listed.map(dueFromNow)],
    ...(more > 0 ? { unlisted: unlisted + more } : {}),
    ...(result.lastFailure === undefined ? {} : { lastFailure: result.lastFailure }),
    ...(result.deferredSeconds > 0
      ? { intakeFrom: Math.max(intakeFrom, Date.now() + result.deferredSeconds * 1_000) }
      : {}),
  }
}

export interface ItemRunHooks {
  /** Nothing new starts while it is so. */
  isPaused?(): boolean
  /** After each batch. */
  onState?(state: ItemRunState): void
}

export interface ItemsOf {
  readonly integrationId: number
  readonly syncLogId: number
  /** Task queue of the batches, prefix included. */
  readonly itemTaskQueue: string
}

/**
 * Works off the items of one run, batch after batch, in up to four lanes.
 *
 * Retries wait in a bounded list on durable timers; a pause, a full list and the provider's limit stop the intake. What
 * a batch that was lost leaves behind is found by the finalisation and comes back through `takeUp()`.
 */
export class ItemRun {
  readonly #of: ItemsOf
  readonly #hooks: ItemRunHooks
  readonly #options: ActivityOptions
  readonly #processSyncItems: ActivityInterfaceFor<Activities>['processSyncItems']
  readonly #running = new Set<Promise<void>>()
  #state: ItemRunState
  /** Of this history: a claim names it. */
  #batches = 0
  /** Rows that the running batches may take. */
  #asked = 0
  #fault: { readonly error: unknown } | null = null
  /** The moments for which timers run. */
  readonly #timers = new Set<number>()
  #wakes = 0
  /** Items that were to be tried at once while a batch was under way that may have had them. */
  readonly #askedNow = new Set<number>()

  constructor(of: ItemsOf, state: ItemRunState, hooks: ItemRunHooks = {}) {
    this.#of = of
    this.#hooks = hooks
    this.#state = state
    hooks.onState?.(state)
    this.#options = { ...batch, taskQueue: of.itemTaskQueue, priority: { fairnessKey: String(of.integrationId) } }
    this.#processSyncItems = proxyActivities<Activities>(this.#options).processSyncItems
  }

  get state(): ItemRunState {
    return this.#state
  }

  /** Rows that a lost batch left behind: the table knows them. */
  takeUp(pending: number, waiting: readonly { id: number; seconds: number }[]): void {
    this.#change({ left: pending, waiting: waiting.map(dueFromNow), unlisted: 0 })
  }

  /** Lets the next attempt of an item begin now. False: it does not wait here. */
  tryNow(itemId: number): boolean {
    const { waiting } = this.#state
    if (!waiting.some(({ id }) => id === itemId)) {
      // It may be in a batch that has not ended, and has begun to wait there.
      if (this.#running.size > 0) this.#askedNow.add(itemId)
      return false
    }
    this.#change({ waiting: waiting.map((item) => (item.id === itemId ? { id: itemId, dueAt: Date.now() } : item)) })
    return true
  }

  /** @returns once nothing runs and nothing is left to do here, or once the history is long */
  async work(): Promise<'done' | 'long history'> {
    try {
      for (;;) {
        while (this.#fault === null && this.#running.size < this.#state.lanes) {
          const take = this.#next()
          if (take === null) break
          this.#start(take)
        }
        if (this.#fault !== null) throw this.#fault.error
        if (this.#running.size === 0) {
          if (hasLongHistory()) return 'long history'
          if (this.#isDone() && !this.#isPaused()) return 'done'
        }
        await this.#somethingToDo()
      }
    } catch (error) {
      // A run that is cancelled, or given up, ends after what it has under way.
      await Promise.all(this.#running)
      throw error
    }
  }

  async #somethingToDo(): Promise<void> {
    const before = this.#running.size
    const wakes = this.#wakes
    const wasPaused = this.#isPaused()
    const isSo = (): boolean =>
      this.#wakes !== wakes ||
      // The end of a pause starts nothing by itself when all that is left waits: its timer must be set.
      this.#isPaused() !== wasPaused ||
      this.#running.size < before ||
      (this.#running.size < this.#state.lanes && this.#mayTake()) ||
      (this.#running.size === 0 && (hasLongHistory() || (this.#isDone() && !this.#isPaused())))
    const moment = this.#running.size < this.#state.lanes ? this.#nextMoment() : null
    if (moment !== null) this.#wakeUpAt(Math.ceil(moment / WAKE_STEP_MS) * WAKE_STEP_MS)
    await condition(isSo)
  }

  /** A timer stays until it fires: to cancel one and start another after each batch would cost more than a wake-up too many. */
  #wakeUpAt(moment: number): void {
    for (const set of this.#timers) if (set <= moment) return
    this.#timers.add(moment)
    sleep(Math.max(1, moment - Date.now()), { summary: this.#dueAt(moment) }).then(
      () => {
        this.#timers.delete(moment)
        this.#wakes += 1
      },
      // Cancelled with the run: whoever waits is told by the same cancellation.
      () => {},
    )
  }

  /** What a timer is for. */
  #dueAt(moment: number): string {
    const due = this.#state.waiting.filter((item) => item.dueAt <= moment).length
    return due === 0
      ? "intake held back until the provider's limit ends"
      : `next attempt of ${due} ${due === 1 ? 'item' : 'items'}`
  }

  #isDone(): boolean {
    return this.#state.left <= 0 && this.#state.waiting.length === 0
  }

  #mayTake(): boolean {
    if (this.#isPaused() || hasLongHistory()) return false
    return this.#takesIn() || this.#state.waiting.some((item) => item.dueAt <= Date.now())
  }

  #takesIn(): boolean {
    const { left, waiting, intakeFrom } = this.#state
    return left > this.#asked && waiting.length < MAX_WAITING && intakeFrom <= Date.now()
  }

  #next(): ItemBatch['take'] | null {
    if (!this.#mayTake()) return null
    const due = this.#state.waiting.filter((item) => item.dueAt <= Date.now()).slice(0, BATCH_ROWS)
    if (due.length === 0) return { kind: 'pending', limit: BATCH_ROWS }
    const taken = new Set(due.map((item) => item.id))
    this.#change({ waiting: this.#state.waiting.filter((item) => !taken.has(item.id)) })
    return { kind: 'due', ids: [...taken] }
  }

  #start(take: ItemBatch['take']): void {
    this.#batches += 1
    if (take.kind === 'pending') this.#asked += take.limit
    const claim = claimOf(workflowInfo().runId, this.#batches)
    const { syncLogId } = this.#of
    const what =
      take.kind === 'pending' ? `up to ${take.limit} new items` : `another attempt of ${take.ids.length} items`
    const running: Promise<void> = this.#processSyncItems
      .executeWithOptions({ ...this.#options, summary: `${what} of run ${syncLogId}` }, [{ syncLogId, claim, take }])
      .then(
        (result) => this.#note(take, result),
        (error: unknown) => {
          this.#fault ??= { error }
        },
      )
      .then(() => {
        if (take.kind === 'pending') this.#asked -= take.limit
        this.#running.delete(running)
        if (this.#running.size === 0) this.#askedNow.clear()
      })
    this.#running.add(running)
  }

  #note(take: ItemBatch['take'], result: ItemBatchResult): void {
    const waiting = result.waiting.map((item) => (this.#askedNow.has(item.id) ? { ...item, seconds: 0 } : item))
    this.#change(afterBatch(this.#state, take, { ...result, waiting }))
  }

  #change(change: Partial<ItemRunState>): void {
    this.#state = { ...this.#state, ...change }
    this.#hooks.onState?.(this.#state)
  }

  #isPaused(): boolean {
    return this.#hooks.isPaused?.() ?? false
  }

  /** The earliest moment at which there is something to do without anybody's doing; null: there is none. */
  #nextMoment(): number | null {
    if (this.#isPaused() || hasLongHistory()) return null
    const { left, waiting, intakeFrom } = this.#state
    const moments = waiting.map((item) => item.dueAt)
    if (left > this.#asked && waiting.length < MAX_WAITING && intakeFrom > Date.now()) moments.push(intakeFrom)
    return moments.length === 0 ? null : Math.min(...moments)
  }
}

function dueFromNow({ id, seconds }: { id: number; seconds: number }): WaitingItem {
  return { id, dueAt: Date.now() + seconds * 1_000 }
}
