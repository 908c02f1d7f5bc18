import {
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  continueAsNew,
  log,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { BACKFILL_SLICE_MS } from '../syncs/run-rules.ts'
import type { BackfillInput, BackfillResult } from '../syncs/sync-jobs.ts'
import { step } from './activity-options.ts'
import { lacksInput, refuseUnlessForSync, refuseUnlessWindow } from './given-input.ts'
import type { BackfillProgress } from './messages.ts'
import { backfillProgress, retryItem } from './messages.ts'
import type { ItemRunState } from './sync-items.ts'
import { ItemRun, itemsToDo } from './sync-items.ts'
import type { ListingState, OpenRun } from './sync-listing.ts'
import { giveUpRun, listWhole, NEW_LISTING } from './sync-listing.ts'
import { showing } from './temporal-ui.ts'
import { hasLongHistory, untilCancelled } from './workflow-end.ts'

const steps = proxyActivities<Activities>(step)

type OpenedSlice = Awaited<ReturnType<Activities['openBackfillSlice']>>

/** Carried over when a backfill goes on in a new history. */
export interface BackfillState {
  readonly done: BackfillResult
  readonly slice: SliceState | null
}

/** The slice at work: being listed, or with its items being processed. */
type SliceState =
  | { readonly kind: 'listing'; readonly run: OpenRun; readonly listing: ListingState }
  | { readonly kind: 'items'; readonly run: OpenRun; readonly items: ItemRunState }

const NOTHING: BackfillResult = { slices: 0, listed: 0, succeeded: 0, failed: 0, skipped: 0 }

/**
 * Lists a window of the past, slice after slice in ascending order, and processes its items.
 *
 * Durable promise: every slice before the one at work was listed whole, and each of its items has ended. A slice whose
 * listing fails, or that may not be opened, ends the backfill with an error that names the slice; the same window may be
 * started again. Its id allows one backfill per integration. Continue-as-new carries the slice.
 */
export async function backfillSync(input: BackfillInput, carried?: BackfillState): Promise<BackfillResult> {
  refuseUnlessForSync(input)
  refuseUnlessWindow(input)
  const { integrationId, stream } = input
  const slices = slicesOf(input)
  // A history of an earlier release carries a result without `skipped`.
  let done: BackfillResult = { ...NOTHING, ...carried?.done }
  let slice = carried?.slice ?? null
  let opening: Promise<OpenedSlice> | null = null
  const current = (): { from: string; to: string } => slices[Math.min(done.slices, slices.length - 1)] ?? input
  const progress = (): BackfillProgress => {
    const items = slice?.kind === 'items' ? slice.items : { succeeded: 0, failed: 0 }
    return {
      ...current(),
      slices: slices.length,
      slicesDone: done.slices,
      listed: done.listed,
      succeeded: done.succeeded + items.succeeded,
      failed: done.failed + items.failed,
    }
  }
  setHandler(backfillProgress, progress, {
    description: 'How far the backfill is: the slice at work, slices done, counts of items.',
  })
  const tell = (): void => showBackfill(integrationId, slice, progress())
  let tryNow = (_itemId: number): boolean => false
  setHandler(
    retryItem,
    (input) => {
      if (!lacksInput(retryItem.name, input)) tryNow(input.itemId)
    },
    { description: 'Tries an item that waits for another attempt now. Input: {"itemId": 5}.' },
  )

  const goOn = async (): Promise<never> => {
    if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('The backfill was cancelled')
    return continueAsNew<typeof backfillSync>(input, { done, slice })
  }
  const opened = async (): Promise<SliceState> => {
    const { firstExecutionRunId: runId, startTime } = workflowInfo()
    const window = {
      integrationId,
      ...(stream === undefined ? {} : { stream }),
      runId,
      startedAt: startTime.toISOString(),
      ...current(),
      until: slices.at(-1)?.to ?? input.to,
    }
    opening = CancellationScope.nonCancellable(() => steps.openBackfillSlice(window))
    const answer = await opening
    opening = null
    if (answer.kind === 'open')
      return {
        kind: 'listing',
        run: { integrationId, syncLogId: answer.syncLogId, settings: answer.settings },
        listing: NEW_LISTING,
      }
    const { from, to } = current()
    log.warn('a backfill ended before its window was through', {
      event: 'backfill.cut_short',
      integration: integrationId,
      ...(stream === undefined ? {} : { stream }),
      reason: answer.reason,
      from,
      to,
      until: window.until,
    })
    throw ApplicationFailure.nonRetryable(
      `The slice from ${from} to ${to} could not be opened: ${answer.reason}. Slices before it are done; once that is mended, start the backfill again from ${from} to ${window.until}.`,
      'BackfillCutShort',
    )
  }
  const listed = async ({ run, listing }: Extract<SliceState, { kind: 'listing' }>): Promise<SliceState> => {
    const end = await listWhole(run, listing, { untilResumed: async () => {} })
    if (end.kind === 'long history') {
      slice = { kind: 'listing', run, listing: end.state }
      return goOn()
    }
    if (end.kind === 'given up') {
      const { from, to } = current()
      await giveUpRun(run, end.reason)
      throw ApplicationFailure.nonRetryable(
        `The listing of the slice from ${from} to ${to} did not end: ${end.remedied} Slices before it are done; start the backfill again from ${from}. \`integrations show-sync-run ${run.syncLogId}\` has the log.`,
        'ListingFailed',
      )
    }
    done = { ...done, listed: done.listed + end.listed }
    return { kind: 'items', run, items: itemsToDo(end.pending) }
  }
  const processed = async ({ run, items: before }: Extract<SliceState, { kind: 'items' }>): Promise<void> => {
    const { syncLogId } = run
    const items = new ItemRun(run, before, {
      isBackfill: true,
      onState: (state) => {
        slice = { kind: 'items', run, items: state }
        tell()
      },
    })
    tryNow = (itemId) => items.tryNow(itemId)
    for (;;) {
      if ((await items.work()) === 'long history' || hasLongHistory()) await goOn()
      const result = await CancellationScope.nonCancellable(() => steps.finaliseSyncRun({ integrationId, syncLogId }))
      if (result.kind === 'unfinished') {
        await items.takeUp(result, hasLongHistory)
        continue
      }
      const { succeeded, failed, skipped } = result.kind === 'finalised' ? result : { ...items.state, skipped: 0 }
      done = {
        ...done,
        slices: done.slices + 1,
        succeeded: done.succeeded + succeeded,
        failed: done.failed + failed,
        skipped: done.skipped + skipped,
      }
      break
    }
    slice = null
  }
  const wholeWindow = async (): Promise<BackfillResult> => {
    while (done.slices < slices.length) {
      if (slice === null && hasLongHistory()) await goOn()
      slice ??= await opened()
      tell()
      if (slice.kind === 'listing') slice = await listed(slice)
      if (slice.kind === 'items') await processed(slice)
    }
    return done
  }

  const result = await untilCancelled(new CancellationScope(), wholeWindow)
  tell()
  if (result.kind === 'ended') return result.value
  const atWork = slice as SliceState | null
  // While Postgres is away, a slice may open only after the grace. It is ended then: perhaps no other backfill comes.
  const late = atWork === null ? await (opening as Promise<OpenedSlice> | null) : null
  const syncLogId = atWork?.run.syncLogId ?? (late?.kind === 'open' ? late.syncLogId : null)
  if (syncLogId !== null)
    await CancellationScope.nonCancellable(() => steps.cancelSyncRun({ integrationId, syncLogId }))
  throw new CancelledFailure('The backfill was cancelled')
}

/** `from` is inclusive, `to` exclusive. The last slice may be shorter. */
function slicesOf({ from, to }: BackfillInput): { from: string; to: string }[] {
  const end = Date.parse(to)
  const slices: { from: string; to: string }[] = []
  for (let start = Date.parse(from); start < end; start += BACKFILL_SLICE_MS)
    slices.push({
      from: new Date(start).toISOString(),
      to: new Date(Math.min(start + BACKFILL_SLICE_MS, end)).toISOString(),
    })
  return slices
}

function showBackfill(integrationId: number, slice: SliceState | null, progress: BackfillProgress): void {
  const { from, to, slices, slicesDone, listed, succeeded, failed } = progress
  const what = slice === null ? 'between slices' : slice.kind === 'listing' ? 'listing a slice' : 'processing a slice'
  showing(
    `Backfill of integration ${integrationId}: ${what}`,
    {
      Slice: `${from} to ${to}`,
      'Slices done': `${slicesDone} of ${slices}`,
      Run: slice?.run.syncLogId,
      Listed: listed,
      Succeeded: succeeded,
      Failed: failed,
    },
    `Items that failed: \`integrations list-failed-items --integration ${integrationId}\`.`,
  )
}
