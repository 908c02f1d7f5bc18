import type { Activities } from '../../src/activities/index.ts'
import type { ItemBatch, ItemBatchResult } from '../../src/activities/item-activities.ts'
import type { OpenedRun } from '../../src/activities/sync-activities.ts'
import type { Finalisation } from '../../src/syncs/finalisation.ts'
import type { AdoptedRun } from '../../src/syncs/leftovers.ts'
import type { Listing } from '../../src/syncs/listing/listing-try.ts'
import type { RunSettings } from '../../src/syncs/start.ts'
import type { Scene } from './stage.ts'

export type Outcome =
  | 'succeeds'
  | 'fails'
  | { readonly retryAfter: number }
  | { readonly deferredBy: number }
  | { readonly putOffFor: number }

export interface Attempt {
  /** Milliseconds, the test server's time. */
  readonly at: number
}

/** A run's items as the table would hold them, and the activities of a run over them. Each call is noted in order. */
export class ScriptedSync implements Partial<Activities> {
  readonly calls: string[] = []
  readonly batches: { batch: ItemBatch; at: number; claimed: number }[] = []
  readonly attempts = new Map<number, Attempt[]>()
  readonly ended = new Map<number, 'succeeded' | 'failed'>()
  readonly waiting = new Set<number>()
  mostWaiting = 0
  running = 0
  mostRunning = 0
  failure: string | undefined
  fullListing = false
  /** Then the announcement is an activity of its own. */
  isListenedTo = false
  /** Task queue of the batches; the scene's own unless set. */
  itemTaskQueue: string | undefined
  pending: number
  #total: number
  readonly #attempt: (id: number, attempt: number) => Outcome
  readonly #during: (batch: ItemBatch) => unknown
  scene: Scene | undefined

  constructor(
    total: number,
    options: {
      /** What becomes of an item's attempt, from 1. Default: succeeds. */
      attempt?: (id: number, attempt: number) => Outcome
      /** Runs inside a batch, before its items. */
      during?: (batch: ItemBatch) => unknown
    } = {},
  ) {
    this.#total = total
    this.pending = total
    this.#attempt = options.attempt ?? (() => 'succeeds')
    this.#during = options.during ?? (() => {})
  }

  /** Another listing of so many items. */
  begin(total: number): void {
    this.#total = total
    this.pending = total
    this.ended.clear()
    this.attempts.clear()
  }

  /** As an object of plain functions, the way a worker takes it; `replaced` take precedence. */
  activities(replaced: Partial<Activities> = {}): Partial<Activities> {
    const { openSyncRun, takeOverSyncRun, listSyncItems, processSyncItems } = this
    const { finaliseSyncRun, announceSyncRun, failSyncRun, cancelSyncRun, handleMissingItems } = this
    return {
      openSyncRun,
      takeOverSyncRun,
      listSyncItems,
      processSyncItems,
      finaliseSyncRun,
      announceSyncRun,
      failSyncRun,
      cancelSyncRun,
      handleMissingItems,
      ...replaced,
    }
  }

  settings(): RunSettings {
    return {
      listingTimeoutSeconds: 600,
      listingTotalSeconds: 1_800,
      itemTaskQueue: this.itemTaskQueue ?? this.#scene.taskQueue,
      isListenedTo: this.isListenedTo,
    }
  }

  readonly openSyncRun = async (): Promise<OpenedRun> => {
    this.calls.push('open')
    return { kind: 'open', syncLogId: 70, settings: this.settings() }
  }

  readonly takeOverSyncRun = async (): Promise<AdoptedRun> => {
    this.calls.push('take over')
    return { listed: this.#total, succeeded: 0, failed: 0, pending: this.pending, waiting: [] }
  }

  readonly listSyncItems = async (): Promise<Listing> => {
    this.calls.push('list')
    return { kind: 'listed', listed: this.#total, duplicatesDropped: 0 }
  }

  readonly processSyncItems = async (batch: ItemBatch): Promise<ItemBatchResult> => {
    this.calls.push(batch.take.kind)
    const ids = this.#claim(batch)
    const at = await this.#scene.now()
    this.batches.push({ batch, at, claimed: ids.length })
    this.running += 1
    this.mostRunning = Math.max(this.mostRunning, this.running)
    try {
      await this.#during(batch)
    } finally {
      this.running -= 1
    }
    const result = { claimed: ids.length, succeeded: 0, failed: 0, deferredSeconds: 0 }
    const waiting: { id: number; seconds: number; isPutOff?: boolean }[] = []
    for (const id of ids) {
      this.attempts.set(id, [...this.attemptsOf(id), { at }])
      const outcome = this.#attempt(id, this.attemptsOf(id).length)
      if (outcome === 'succeeds' || outcome === 'fails') {
        const ended = outcome === 'succeeds' ? 'succeeded' : 'failed'
        result[ended] += 1
        if (this.ended.has(id)) throw new Error(`item ${id} ended twice`)
        this.ended.set(id, ended)
      } else if ('putOffFor' in outcome) {
        waiting.push({ id, seconds: outcome.putOffFor, isPutOff: true })
        this.waiting.add(id)
      } else {
        const seconds = 'retryAfter' in outcome ? outcome.retryAfter : outcome.deferredBy
        if ('deferredBy' in outcome) result.deferredSeconds = Math.max(result.deferredSeconds, seconds)
        waiting.push({ id, seconds })
        this.waiting.add(id)
      }
    }
    this.mostWaiting = Math.max(this.mostWaiting, this.waiting.size)
    const upTo = batch.take.kind === 'pending' && ids.length > 0 ? { claimedUpTo: Math.max(...ids) } : {}
    return { ...result, waiting, ...upTo }
  }

  readonly finaliseSyncRun = async ({ announces = !this.isListenedTo } = {}): Promise<Finalisation> => {
    this.calls.push('finalise')
    if (this.pending + this.waiting.size > 0)
      return { kind: 'unfinished', pending: this.pending, waiting: [...this.waiting].map((id) => ({ id, seconds: 0 })) }
    const outcomes = [...this.ended.values()]
    const failed = outcomes.filter((outcome) => outcome === 'failed').length
    const succeeded = outcomes.length - failed
    const status = failed === 0 ? 'success' : 'partial'
    if (announces) await this.announceSyncRun()
    return { kind: 'finalised', status, succeeded, failed, skipped: 0, fullListing: this.fullListing }
  }

  readonly announceSyncRun = async (): Promise<void> => {
    this.calls.push('announce')
  }

  readonly failSyncRun = async ({ reason }: { reason: string }): Promise<void> => {
    this.calls.push('fail')
    this.failure = reason
  }

  readonly cancelSyncRun = async (): Promise<void> => {
    this.calls.push('cancel')
  }

  readonly handleMissingItems = async (): Promise<{ missing: number }> => {
    this.calls.push('missing')
    return { missing: 0 }
  }

  attemptsOf(id: number): Attempt[] {
    return this.attempts.get(id) ?? []
  }

  /** Seconds between the attempts of an item. */
  gapsOf(id: number): number[] {
    const at = this.attemptsOf(id).map((attempt) => attempt.at)
    return at.slice(1).map((moment, index) => (moment - (at[index] as number)) / 1_000)
  }

  get #scene(): Scene {
    if (this.scene === undefined) throw new Error('set `scene` first')
    return this.scene
  }

  #claim({ take }: ItemBatch): number[] {
    if (take.kind === 'due') return take.ids.filter((id) => this.waiting.delete(id))
    const count = Math.min(take.limit, this.pending)
    const first = this.#total - this.pending + 1
    const { after = 0 } = take
    if (after >= first) throw new Error(`a batch begins after item ${after}; item ${first} is pending`)
    this.pending -= count
    return Array.from({ length: count }, (_, index) => first + index)
  }
}
