/** The items of a sync run or of a backfill's slice: their batches, and the waits between their attempts. */
import type { ActivityInterfaceFor, ActivityOptions } from '@temporalio/workflow'
import { condition, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { ItemBatch, ItemBatchResult } from '../activities/item-activities.ts'
import { claimOf } from '../claims/rules.ts'
import type { LastFailure } from '../syncs/sync-jobs.ts'
import { BATCH_ROWS } from '../syncs/sync-jobs.ts'
import { batch, step } from './activity-options.ts'
import type { OpenRun } from './sync-listing.ts'
import { hasLongHistory } from './workflow-end.ts'

const MAX_LANES = 4
/** Most items that wait for another attempt. A full list stops the intake until some are done. */
const MAX_WAITING = 1_000
/**
 * Most of them that were put off because the thing they refer to is missing. That thing may be among the items not taken in
 * yet, and a full list would keep it out. Further ones wait until the finalisation names them.
 */
const MAX_PUT_OFF = 500
/** Items whose waits end within the same step of this length run in one batch, with one timer. */
const WAKE_STEP_MS = 250
/** Rows that another workflow holds (a retry by hand) end on their own and signal it. Without the signal: look again then. */
const HELD_ELSEWHERE_WAIT = '30 seconds'
/** A worker that was given up learns within this time that its batch's result is not awaited any more. */
const ORPHANED_AFTER_SECONDS = 60

const { takeOverSyncRun } = proxyActivities<Activities>(step)

export interface WaitingItem {
  readonly id: number
  /** Milliseconds since the epoch. */
  readonly dueAt: number
}

/** How far a run's items are. Carried over when the run goes on in a new history. */
export interface ItemRunState {
  /** Pending rows that no batch has taken yet. An estimate; the finalisation counts them. */
  readonly left: number
  readonly lanes: number
  /** All pending rows up to this id have been claimed. Absent: none yet. Null: some have come back, so each claim begins at the first. */
  readonly claimedUpTo?: number | null
  readonly succeeded: number
  readonly failed: number
  readonly waiting: readonly WaitingItem[]
  /** Number of items that wait beyond those; the finalisation names them. Absent: 0. */
  readonly unlisted?: number
  /** Absent: no attempt has failed yet. */
  readonly lastFailure?: LastFailure
  /** Milliseconds since the epoch. Until then the provider's limit stops the intake. */
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

/** The state after a batch. */
export function afterBatch(before: ItemRunState, take: ItemBatch['take'], result: ItemBatchResult): ItemRunState {
  const { left, claimedUpTo = 0, succeeded, failed, waiting, intakeFrom, unlisted = 0 } = before
  const had = result.succeeded + result.failed + result.waiting.length
  let room = MAX_PUT_OFF - waiting.length
  const listed = result.waiting.filter(({ isPutOff = false }) => !isPutOff || room-- > 0)
  const more = result.waiting.length - listed.length
  return {
    ...before,
    ...(take.kind === 'pending'
      ? {
          left: result.claimed < take.limit ? 0 : Math.max(0, left - had),
          claimedUpTo:
            claimedUpTo === null || result.claimedUpTo === undefined ? null : Math.max(claimedUpTo, result.claimedUpTo),
        }
      : {}),
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

interface ItemRunHooks {
  /** While it is true, no batch starts. */
  isPaused?(): boolean
  /** Items that have a newer copy in a later run by now are skipped. Default false. */
  readonly isBackfill?: boolean
  /** After each batch. */
  onState?(state: ItemRunState): void
}

/** The rows that a finalisation found unfinished, except those that are held. */
interface UnfinishedItems {
  readonly pending: number
  readonly waiting: readonly { id: number; seconds: number }[]
}

/**
 * Processes the items of one run, batch after batch, in up to four lanes.
 *
 * Retries wait in a bounded list on durable timers. A pause, a full list and the provider's limit stop the intake. The
 * finalisation finds what a lost batch left behind, and `takeUp()` takes it back.
 */
export class ItemRun {
  readonly #run: OpenRun
  readonly #hooks: ItemRunHooks
  readonly #options: ActivityOptions
  readonly #processSyncItems: ActivityInterfaceFor<Activities>['processSyncItems']
  readonly #running = new Set<Promise<void>>()
  #state: ItemRunState
  /** Batches of this history. The number is part of each claim's name. */
  #batches = 0
  /** Pending rows that the running batches may take. */
  #asked = 0
  #fault: { readonly error: unknown } | null = null
  /** The moments at which running timers fire. */
  readonly #timers = new Set<number>()
  #wakes = 0
  /** Items that `tryNow()` named while a running batch may have held them. */
  readonly #askedNow = new Set<number>()

  constructor(run: OpenRun, state: ItemRunState, hooks: ItemRunHooks = {}) {
    const { integrationId, settings } = run
    this.#run = run
    this.#hooks = hooks
    this.#state = state
    hooks.onState?.(state)
    const priority = { fairnessKey: String(integrationId) }
    this.#options = { ...batch, taskQueue: settings.itemTaskQueue, priority }
    this.#processSyncItems = proxyActivities<Activities>(this.#options).processSyncItems
  }

  get state(): ItemRunState {
    return this.#state
  }

  /**
   * Takes up the rows that a finalisation found unfinished. When all of them are held, it waits a while for a change.
   *
   * @param isChanged whether something outside the run has changed its items since
   */
  async takeUp(found: UnfinishedItems, isChanged: () => boolean): Promise<void> {
    if (this.#leftIs(found)) return
    // No batch runs here. A row that is still held under a claim of this run belongs to a worker that was given up.
    const { integrationId, syncLogId } = this.#run
    const left = await takeOverSyncRun({ integrationId, syncLogId, olderThanSeconds: ORPHANED_AFTER_SECONDS })
    if (this.#leftIs(left)) return
    await condition(isChanged, HELD_ELSEWHERE_WAIT, {
      summary: 'items are held by a retry by hand; looked at again then',
    })
  }

  /** Returns whether there is something to do. */
  #leftIs({ pending, waiting }: UnfinishedItems): boolean {
    this.#change({ left: pending, claimedUpTo: null, waiting: waiting.map(dueFromNow), unlisted: 0 })
    return pending > 0 || waiting.length > 0
  }

  /** Starts the next attempt of an item now. False: it is not known to wait here. */
  tryNow(itemId: number): boolean {
    const { waiting, unlisted = 0 } = this.#state
    if (!waiting.some(({ id }) => id === itemId)) {
      // A running batch may hold it, with the next attempt still to be reported.
      if (this.#running.size > 0) this.#askedNow.add(itemId)
      // It may wait beyond the list. A batch takes it only if it does.
      if (unlisted > 0 && Number.isSafeInteger(itemId) && itemId > 0)
        this.#change({ waiting: [...waiting, { id: itemId, dueAt: Date.now() }], unlisted: unlisted - 1 })
      return false
    }
    this.#change({ waiting: waiting.map((item) => (item.id === itemId ? { id: itemId, dueAt: Date.now() } : item)) })
    return true
  }

  /** Resolves when nothing runs and nothing is left to do here, or when the history is long. */
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
      // A run that is cancelled or given up ends after its running batches.
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
      // At the end of a pause all that is left may be waiting: a timer must be set for it.
      this.#isPaused() !== wasPaused ||
      this.#running.size < before ||
      (this.#running.size < this.#state.lanes && this.#mayTake()) ||
      (this.#running.size === 0 && (hasLongHistory() || (this.#isDone() && !this.#isPaused())))
    const moment = this.#running.size < this.#state.lanes ? this.#nextMoment() : null
    if (moment !== null) this.#wakeUpAt(Math.ceil(moment / WAKE_STEP_MS) * WAKE_STEP_MS)
    await condition(isSo)
  }

  /** A timer is never cancelled: one wake-up too many costs less than replacing the timer after each batch. */
  #wakeUpAt(moment: number): void {
    for (const set of this.#timers) if (set <= moment) return
    this.#timers.add(moment)
    sleep(Math.max(1, moment - Date.now()), { summary: this.#timerSummary(moment) }).then(
      () => {
        this.#timers.delete(moment)
        this.#wakes += 1
      },
      // The cancellation of the run also rejects the `condition` that waits for this timer.
      () => {},
    )
  }

  /** The timer's line in the Temporal UI. */
  #timerSummary(moment: number): string {
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
    if (due.length === 0) {
      const after = this.#state.claimedUpTo ?? 0
      return { kind: 'pending', limit: BATCH_ROWS, ...(after > 0 ? { after } : {}) }
    }
    const taken = new Set(due.map((item) => item.id))
    this.#change({ waiting: this.#state.waiting.filter((item) => !taken.has(item.id)) })
    return { kind: 'due', ids: [...taken] }
  }

  #start(take: ItemBatch['take']): void {
    this.#batches += 1
    if (take.kind === 'pending') this.#asked += take.limit
    const claim = claimOf(workflowInfo().runId, this.#batches)
    const { syncLogId } = this.#run
    const given = { syncLogId, claim, take, ...(this.#hooks.isBackfill === true ? { isBackfill: true } : {}) }
    const what =
      take.kind === 'pending' ? `up to ${take.limit} new items` : `another attempt of ${take.ids.length} items`
    const running: Promise<void> = this.#processSyncItems
      .executeWithOptions({ ...this.#options, summary: `${what} of run ${syncLogId}` }, [given])
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
    const waiting = result.waiting.map((item) => (this.#askedNow.has(item.id) ? { id: item.id, seconds: 0 } : item))
    this.#change(afterBatch(this.#state, take, { ...result, waiting }))
  }

  #change(change: Partial<ItemRunState>): void {
    this.#state = { ...this.#state, ...change }
    this.#hooks.onState?.(this.#state)
  }

  #isPaused(): boolean {
    return this.#hooks.isPaused?.() ?? false
  }

  /** The earliest moment at which a batch can start without a signal; null: there is no such moment. */
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
