/**
 * Opens a run, once what an earlier one left behind is settled.
 *
 * Rule: docs/behaviour/sync-listing.md, "Opening a run".
 */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { lockIntegration } from '../integrations/queries.ts'
import { switchedOffBy } from '../integrations/rules.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { insertLog } from '../observability/log-queries.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { HasScheduledSync } from '../providers/contracts.ts'
import { hasIncrementalSync, hasScheduledSync } from '../providers/contracts.ts'
import { failRun } from './cut-short.ts'
import { finaliseRun } from './finalisation.ts'
import type { BegunListing } from './listing/listing-queries.ts'
import { insertListingLog } from './listing/listing-queries.ts'
import type { RecentRun } from './opening-queries.ts'
import {
  dueAndOpened,
  isDue,
  itemsRetriedByHand,
  noteOpenRun,
  readOpening,
  recentRuns,
  secondsSinceLastClaim,
} from './opening-queries.ts'
import { reclaimAbandonedItems } from './reclaim.ts'

/** Only one run of an integration is open at a time, so an open one is among the newest. */
const RECENT_RUNS = 20
/** A batch of a dead workflow learns within this time that nobody waits for it. */
const ADOPTION_WAIT_SECONDS = 60
/** Questions to Temporal at once. */
const QUESTIONS = 20
/** For reclaiming: a run lives, the one that asks, and has no log yet. */
const NO_LOG_YET = 0

export type RunStart =
  | {
      readonly kind: 'open'
      readonly syncLogId: number
      /** Not there: it is to be begun. */
      readonly listing?: BegunListing & { readonly row: IntegrationRow }
    }
  | { readonly kind: 'adopted'; readonly syncLogId: number; readonly waitSeconds: number }
  | { readonly kind: 'reclaimed'; readonly syncLogIds: readonly number[] }
  | { readonly kind: 'nothing to do'; readonly reason: string }

interface StartInput {
  /** Of the workflow that asks. */
  readonly runId: string
  /** Leftovers are settled either way; a new run is opened only when it is due. */
  readonly onlyIfDue?: boolean
  /** Begins the listing of a run that is opened now. */
  readonly lists?: boolean
}

/** Asked again for the same workflow, it gives what it gave before. */
export async function startRun(framework: Framework, integrationId: number, input: StartInput): Promise<RunStart> {
  const { db, tables, providers } = framework
  const { runId, lists = false } = input
  const opening = await readOpening(db, tables, integrationId, RECENT_RUNS)
  if (opening === null) return nothing(`there is no integration ${integrationId}`)
  const { row, runs, isInWork } = opening
  const offBy = switchedOffBy(row)
  if (offBy !== null)
    return nothing(`the integration is switched off${offBy === 'its health' ? ': its health is disabled' : ''}`)
  const provider = providers.find(row.provider)
  if (provider === null) return nothing(`the provider "${row.provider}" is not registered`)
  if (!hasScheduledSync(provider)) return nothing(`the provider "${row.provider}" has no sync()`)

  const found = await foundBefore(framework, runs, runId)
  if (found !== null) return found
  const reclaimed = isInWork ? await reclaim(framework, row.id, runId) : []
  if (reclaimed.length > 0) return { kind: 'reclaimed', syncLogIds: reclaimed }
  const wasDue = runs.some(({ isOpen }) => isOpen) && (await isDue(db, tables, row.id))
  const left = await settleLeftovers(framework, row.id, { runs, runId, isInWork })
  if (left !== null && left.kind !== 'failed') return left
  // The plan that a run leaves when it is failed is not meant for the one that takes its place.
  const onlyIfDue = input.onlyIfDue === true && !(left?.kind === 'failed' && wasDue)
  return open(framework, row, provider, { runId, onlyIfDue, lists })
}

/** The run that a workflow has opened, or has taken over; null: none. */
export async function openedBy(
  { db, tables }: Framework,
  integrationId: number,
  runId: string,
): Promise<number | null> {
  const runs = await recentRuns(db, tables, integrationId, RECENT_RUNS)
  return runs.find((run) => run.runId === runId || run.adoptedBy === runId)?.syncLogId ?? null
}

/** Items that a workflow of their own works on: nothing else is to touch them meanwhile. @throws BackendUnreachable */
export async function itemsHeldByOwnWorkflow(
  { db, tables, workflows }: Framework,
  of: Parameters<typeof itemsRetriedByHand>[2],
): Promise<number[]> {
  const held = await itemsRetriedByHand(db, tables, of)
  const alive: number[] = []
  for (let at = 0; at < held.length; at += QUESTIONS) {
    const asked = held.slice(at, at + QUESTIONS)
    const answers = await Promise.all(asked.map((id) => workflows.isSyncItemRunning(id)))
    alive.push(...asked.filter((_, index) => answers[index]))
  }
  return alive
}

/** What an earlier try for the same workflow came to. */
async function foundBefore(framework: Framework, runs: readonly RecentRun[], runId: string): Promise<RunStart | null> {
  const own = runs.find((run) => run.runId === runId)
  if (own !== undefined) return { kind: 'open', syncLogId: own.syncLogId }
  const taken = runs.find((run) => run.isOpen && run.adoptedBy === runId)
  if (taken !== undefined) return adopted(framework, taken)
  const reclaimed = runs.filter((run) => run.reclaimedBy === runId)
  return reclaimed.length === 0 ? null : { kind: 'reclaimed', syncLogIds: reclaimed.map(({ syncLogId }) => syncLogId) }
}

/** Fails what has been in flight for too long, and ends the runs that it belongs to. @returns those runs */
async function reclaim(framework: Framework, integrationId: number, runId: string): Promise<readonly number[]> {
  const { db, tables, logger } = framework
  const { items, syncLogIds } = await reclaimAbandonedItems(framework, integrationId, NO_LOG_YET)
  if (items === 0) return []
  for (const syncLogId of syncLogIds) {
    // Noted first: a second try of the opening still knows whom to tell of.
    await noteOpenRun(db, tables, syncLogId, { reclaimed_by: runId })
    const { result } = await finaliseRun(framework, { integrationId, syncLogId })
    logger.warn(
      {
        event: 'sync.reclaimed',
        integration: integrationId,
        provider: (await subjectOf(framework, integrationId)).provider,
        sync_log: syncLogId,
        outcome: result.kind,
      },
      'abandoned items of a sync run were failed',
    )
  }
  return syncLogIds
}

/**
 * Runs whose workflow is gone: the id of a workflow is its lock, so whatever is open belongs to a dead one.
 *
 * @returns null: there is none; `failed`: the way is free now
 */
async function settleLeftovers(
  framework: Framework,
  integrationId: number,
  { runs, runId, isInWork }: { runs: readonly RecentRun[]; runId: string; isInWork: boolean },
): Promise<RunStart | { readonly kind: 'failed' } | null> {
  const { db, tables, logger } = framework
  const retried = isInWork ? await itemsHeldByOwnWorkflow(framework, { integrationId }) : []
  if (retried.length > 0) return nothing(`failed items are being retried by hand: ${retried.slice(0, 10).join(', ')}`)
  const left = runs.filter((run) => run.isOpen).reverse()
  let isFreed = false
  for (const run of left.filter(({ isEnumerated }) => !isEnumerated)) {
    const reason = 'the workflow of the run ended before its listing was complete'
    if (!(await failRun(framework, { integrationId, syncLogId: run.syncLogId }, reason))) continue
    isFreed = true
    logger.warn(
      {
        event: 'sync.failed',
        integration: integrationId,
        provider: (await subjectOf(framework, integrationId)).provider,
        sync_log: run.syncLogId,
        error: reason,
      },
      'sync run failed',
    )
  }
  for (const run of left.filter(({ isEnumerated }) => isEnumerated)) {
    if (!(await noteOpenRun(db, tables, run.syncLogId, { adopted_by: runId }))) continue
    logger.warn(
      {
        event: 'sync.adopted',
        integration: integrationId,
        provider: (await subjectOf(framework, integrationId)).provider,
        sync_log: run.syncLogId,
      },
      'the workflow of a sync run is gone; its items are gone on with',
    )
    return adopted(framework, run)
  }
  return isFreed ? { kind: 'failed' } : null
}

async function adopted({ db, tables }: Framework, { syncLogId }: RecentRun): Promise<RunStart> {
  const age = await secondsSinceLastClaim(db, tables, syncLogId)
  const waitSeconds = age === null ? 0 : Math.max(0, Math.ceil(ADOPTION_WAIT_SECONDS - age))
  return { kind: 'adopted', syncLogId, waitSeconds }
}

async function open(
  { db, tables, logger }: Framework,
  { id }: IntegrationRow,
  provider: HasScheduledSync,
  { runId, onlyIfDue, lists }: StartInput,
): Promise<RunStart> {
  return db.transaction(async (tx) => {
    // Two tries that overlap open one log.
    const row = await lockIntegration(tx, tables, id)
    if (row === null) return nothing('the integration is gone')
    const { isDue, openedId } = await dueAndOpened(tx, tables, { integrationId: id, runId, limit: RECENT_RUNS })
    if (openedId !== null) return { kind: 'open', syncLogId: openedId }
    // The run that made it due may have ended since the dispatch had its list: by the id alone a second one would start.
    if (onlyIfDue && !isDue) return nothing('it is not due any more')
    const metadata: RunMetadata = {
      run_id: runId,
      incremental: hasIncrementalSync(provider),
      cursor_before: (row.syncCursor ?? null) as Json,
      enumerated: false,
    }
    const opened = { operation: 'sync', direction: 'inbound', status: 'processing' } as const
    const values = { integrationId: id, ...opened, metadata }
    const listing = lists === true ? { listing: { row, ...(await insertListingLog(tx, tables, values)) } } : {}
    const syncLogId = listing.listing?.log.id ?? (await insertLog(tx, tables, values))
    logger.info(
      {
        event: 'sync.started',
        integration: id,
        provider: row.provider,
        sync_log: syncLogId,
        incremental: metadata.incremental,
        cursor: metadata.cursor_before,
      },
      'sync run started',
    )
    return { kind: 'open', syncLogId, ...listing }
  })
}

function nothing(reason: string): RunStart {
  return { kind: 'nothing to do', reason }
}
