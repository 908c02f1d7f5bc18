import { whileWaiting } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import { batchInTurn, givingWay } from '../syncs/items/giving-way.ts'
import { itemResolved } from '../syncs/items/item-acts.ts'
import { claimAndRecord } from '../syncs/items/item-failures.ts'
import {
  claimItemForRetry,
  claimPendingItems,
  claimWaitingItems,
  endOutdatedRetry,
  findItem,
  outdatingItem,
} from '../syncs/items/item-queries.ts'
import { ItemRunner } from '../syncs/items/item-runner.ts'
import { refusalsOf } from '../syncs/items/run-item.ts'
import type { LastFailure, ProcessSyncItemResult } from '../syncs/sync-jobs.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Either the next pending items of a run, or certain ones whose wait is over. */
export interface ItemBatch {
  readonly syncLogId: number
  /** Made by the workflow, so that a second try of this very activity carries the same one. */
  readonly claim: string
  readonly take:
    | {
        readonly kind: 'pending'
        readonly limit: number
        /** All up to this id have been claimed. Default: 0. */
        readonly after?: number | undefined
      }
    | { readonly kind: 'due'; readonly ids: number[] }
  /** Its run is a slice of a backfill: ordinary runs beside it may have brought newer copies. Default false. */
  readonly isBackfill?: boolean
}

export interface ItemBatchResult {
  readonly claimed: number
  /** Highest id of the pending rows that it claimed. Absent: it claimed none, or some are pending again. */
  readonly claimedUpTo?: number
  readonly succeeded: number
  readonly failed: number
  /** Items that run again; `isPutOff`: what they refer to was not there yet. */
  readonly waiting: { readonly id: number; readonly seconds: number; readonly isPutOff?: boolean }[]
  /** Not there: no attempt failed. */
  readonly lastFailure?: LastFailure
  /** Seconds until the provider has capacity again; the run takes nothing new in before. 0: no limit was met. */
  readonly deferredSeconds: number
}

/** One attempt of a single item. */
export interface OneItem {
  readonly itemId: number
  /** Begins with `retry-`, which tells a single item's claim from a run's. */
  readonly claim: string
  /** Of the retry's own attempts, from 1: the first one takes a `failed` row, later ones the row that waits. */
  readonly attempt: number
  /** Attempts that the retry has in all. */
  readonly tries: number
  /** Also where a later run has a newer copy. Default false. */
  readonly force?: boolean
}

export interface OneItemResult extends ProcessSyncItemResult {
  /** Seconds until the next attempt; null: the item is settled, and its run has been finalised and announced again. */
  readonly waitSeconds: number | null
  /** Whether this was one of the retry's tries; a deferral is not one. */
  readonly isCounted: boolean
}

export interface BatchRun {
  /** Aborted when the worker stops or the run is cancelled. */
  readonly cancelled: AbortSignal
  /** From then on no more items start; the rest is pending again. Default: 30 s. */
  readonly startWithinMs?: number
  /** No earlier try has had the claim. Default false. */
  readonly isFirst?: boolean
}

export async function runItemBatch(
  framework: Framework,
  { syncLogId, claim, take, isBackfill = false }: ItemBatch,
  { isFirst = false, ...how }: BatchRun,
): Promise<ItemBatchResult> {
  const { tables } = framework
  const runner = new ItemRunner(framework, {
    claim,
    retry: null,
    givesWay: !isFirst,
    skipsOutdated: isBackfill,
    givenBack: take.kind === 'pending' ? { status: 'pending' } : { status: 'processing', waitsFor: null },
    ...how,
  })
  try {
    if (!isFirst) await runner.takeUpHeld()
    const claiming = { claim, refusals: refusalsOf(framework) }
    const claimed = () =>
      claimAndRecord(framework, (db) =>
        take.kind === 'due'
          ? claimWaitingItems(db, tables, { ...claiming, syncLogId, ids: take.ids })
          : claimPendingItems(db, tables, { ...claiming, syncLogId, limit: take.limit, after: take.after }),
      )
    const rows = await (isFirst ? claimed() : givingWay(framework, claimed))
    await runner.run(rows)
    const { processed: succeeded, failed, handedBack } = runner.tally
    const waiting = runner.waiting.map(({ id, seconds, because }) => ({
      id,
      seconds,
      ...(because === 'not yet' ? { isPutOff: true } : {}),
    }))
    const failure = runner.lastFailure === null ? {} : { lastFailure: runner.lastFailure }
    // Rows that are pending again: the lane must come for them.
    const taken = take.kind === 'pending' && handedBack > 0 ? take.limit : rows.length
    const last = take.kind === 'pending' && handedBack === 0 ? rows.at(-1) : undefined
    const upTo = last === undefined ? {} : { claimedUpTo: last.id }
    return { succeeded, failed, deferredSeconds: runner.deferredSeconds, ...failure, waiting, claimed: taken, ...upTo }
  } finally {
    await runner.end()
  }
}

export function syncItemActivities(framework: Framework, surroundings = temporalSurroundings) {
  const { tables } = framework
  const isCrossed = async (itemId: number): Promise<boolean> =>
    (await outdatingItem(framework.db, tables, itemId)) !== null

  return {
    /**
     * Runs the listeners of a batch of items.
     *
     * May be run twice: a second try under the same claim first takes up the rows that the first one still holds. What
     * the first one had put to wait without being able to say so is found by the finalisation, which names such rows.
     */
    async processSyncItems(batch: ItemBatch): Promise<ItemBatchResult> {
      const { cancellationSignal: cancelled } = surroundings()
      return batchInTurn(framework, () => runItemBatch(framework, batch, { cancelled }))
    },

    /**
     * One failed item again, under a workflow of its own.
     *
     * May be run twice: a second try under the same claim takes up its row if the first one still holds it. If the first
     * one had settled it, a success is told as one; a failure is tried once more.
     */
    async processOneSyncItem({ itemId, claim, attempt, tries, force = false }: OneItem): Promise<OneItemResult> {
      const { cancellationSignal: cancelled, info } = surroundings()
      const runner = new ItemRunner(framework, {
        claim,
        cancelled,
        retry: { attempt, tries },
        givenBack: { status: 'processing', waitsFor: whileWaiting(claim) },
      })
      const isFirst = attempt === 1
      let ran = false
      let isOutdated = false
      try {
        ran = (await runner.takeUpHeld()) > 0
        if (!ran) {
          const claiming = { claim, refusals: refusalsOf(framework) }
          const rows = await claimAndRecord(framework, async (db) => {
            const row = await claimItemForRetry(db, tables, { ...claiming, id: itemId, isFirst, force })
            return row === null ? [] : [row]
          })
          ran = rows.length > 0
          await runner.run(rows)
          if (!ran && !force) isOutdated = await endOutdatedRetry(framework.db, tables, { id: itemId, isFirst })
        }
      } finally {
        await runner.end()
      }
      const row = await findItem(framework.db, tables, itemId)
      const result = { itemId, status: row?.status ?? null, attempts: row?.attempts ?? null }
      const [wait] = runner.waiting
      if (wait !== undefined)
        return {
          ...result,
          outcome: 'failed',
          error: null,
          waitSeconds: wait.seconds,
          isCounted: wait.because === 'failed',
        }
      if (row !== null && (isOutdated || (!ran && row.status === 'failed' && !force && (await isCrossed(row.id))))) {
        await itemResolved(framework, row)
        return { ...result, outcome: 'outdated', error: row.error, waitSeconds: null, isCounted: false }
      }
      // Another attempt of this retry had it before, or its own first try had settled it.
      const isOurs = ran || attempt > 1 || info.attempt > 1
      const status = row?.status
      if (row === null || !isOurs || (status !== 'success' && status !== 'failed'))
        return { ...result, outcome: 'not failed', error: row?.error ?? null, waitSeconds: null, isCounted: false }
      await itemResolved(framework, row)
      return { ...result, outcome: status, error: row.error, waitSeconds: null, isCounted: true }
    },
  }
}
