/**
 * The steps of a sync run around its items: who is due, open, list, finalise, announce.
 *
 * Rule: docs/behaviour/syncs.md.
 */
import { Context } from '@temporalio/activity'
import { delayAfter } from '../core/backoff.ts'
import { nextCursor } from '../core/checkpoint.ts'
import type { Json } from '../core/json.ts'
import { secretsOf } from '../core/redaction.ts'
import type { RunStatus } from '../core/sync-run.ts'
import { effectiveIntervalMinutes, intervalMultiplier, runStatus } from '../core/sync-run.ts'
import type { Transaction } from '../db/client.ts'
import { dueIntegrations, findIntegration, lockIntegration, recordRunTimes } from '../db/queries/integrations.ts'
import type { RunMetadata } from '../db/queries/logs.ts'
import {
  cursorWasSetAfter,
  findLog,
  findRunLog,
  insertLog,
  lockLog,
  mergeLogMetadata,
  updateLog,
} from '../db/queries/logs.ts'
import type { ItemCounts } from '../db/queries/sync-items.ts'
import {
  countItems,
  deleteUnstartedItems,
  finishedCheckpoints,
  hasUnresolvedFailure,
  insertSyncItems,
  waitingItems,
} from '../db/queries/sync-items.ts'
import type { IntegrationRow, LogRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { getIntegration, integrationHandle } from '../operations/integration.ts'
import { redactedErrorLine } from '../operations/redacted-error.ts'
import type { HasScheduledSync } from '../providers/provider.ts'
import { classifiesFailures, hasIncrementalSync, hasScheduledSync } from '../providers/provider.ts'
import { asFailure, isFinalFault } from './failures.ts'
import { StoringSession } from './sync-session.ts'

/** Integrations looked at in one dispatch; the next minute's takes the rest. */
const MAX_DUE = 1_000
/** A listing's own faults end it after so many attempts; a lost worker does not count against them. */
const LISTING_ATTEMPTS = 3
const CHECKPOINT_PAGE = 5_000
/** As many rows as a run's list of waiting items holds. */
const MAX_WAITING = 1_000
/** Ids kept in the log of a run, so that its requests can be found. */
const MAX_REQUEST_IDS = 1_000

export interface DispatchResult {
  readonly due: number
  readonly started: number
  readonly alreadyRunning: number
}

export type OpenedRun =
  | { readonly kind: 'open'; readonly syncLogId: number; readonly settings: RunSettings }
  | { readonly kind: 'nothing to do'; readonly reason: string }

/** What the workflow needs to know of the configuration; it travels as data, so that a replay sees what the run saw. */
export interface RunSettings {
  readonly listingTimeoutSeconds: number
  readonly listingTotalSeconds: number
  /** Task queue of the item batches, prefix included. */
  readonly itemTaskQueue: string
}

export interface Listing {
  readonly listed: number
  readonly duplicatesDropped: number
}

export type Finalisation =
  | {
      readonly kind: 'finalised'
      readonly status: RunStatus
      readonly succeeded: number
      readonly failed: number
      readonly skipped: number
    }
  | { readonly kind: 'unfinished'; readonly pending: number; readonly waiting: { id: number; seconds: number }[] }
  | { readonly kind: 'not this time'; readonly reason: string }

export function syncRunActivities(framework: Framework) {
  const { config, db, tables, logger, providers, listeners } = framework

  return {
    /** Starts a run of each integration that is due. Harmless to repeat: a run's id refuses a second start. */
    async startDueSyncs(): Promise<DispatchResult> {
      const scheduled = new Map(providers.entries().flatMap(([key, p]) => (hasScheduledSync(p) ? [[key, p]] : [])))
      // The provider's default interval is code, so the query is told which providers have one: without it an
      // integration runs by hand only, and a thousand of those must not stand before the ones that are due.
      const withInterval = [...scheduled].filter(([, provider]) => (provider.defaultSyncInterval?.() ?? null) !== null)
      const due = await dueIntegrations(db, tables, {
        providers: [...scheduled.keys()],
        withInterval: withInterval.map(([key]) => key),
        limit: MAX_DUE,
      })
      let started = 0
      for (const row of due) if ((await framework.workflows.startSync(row.id)) === 'started') started += 1
      return { due: due.length, started, alreadyRunning: due.length - started }
    },

    /** Opens the run's log. A second try finds the log of the first by the run's id. */
    async openSyncRun({ integrationId, runId }: { integrationId: number; runId: string }): Promise<OpenedRun> {
      const row = await findIntegration(db, tables, integrationId)
      if (row === null) return { kind: 'nothing to do', reason: `there is no integration ${integrationId}` }
      if (!row.isActive) return { kind: 'nothing to do', reason: 'the integration is switched off' }
      const provider = providers.find(row.provider)
      if (provider === null)
        return { kind: 'nothing to do', reason: `the provider "${row.provider}" is not registered` }
      if (!hasScheduledSync(provider))
        return { kind: 'nothing to do', reason: `the provider "${row.provider}" has no sync()` }
      const settings: RunSettings = {
        listingTimeoutSeconds: config.sync.job_timeout,
        listingTotalSeconds: config.sync.lock_ttl,
        itemTaskQueue: `${config.cache_prefix}-${config.sync.item_queue ?? config.sync.queues[row.provider] ?? config.sync.queue}`,
      }
      const metadata: RunMetadata = {
        run_id: runId,
        incremental: hasIncrementalSync(provider),
        cursor_before: (row.syncCursor ?? null) as Json,
        enumerated: false,
      }
      const { syncLogId, isNew } = await db.transaction(async (tx) => {
        // Two tries that overlap open one log.
        await lockIntegration(tx, tables, integrationId)
        const existing = await findRunLog(tx, tables, integrationId, runId)
        if (existing !== null) return { syncLogId: existing.id, isNew: false }
        const opened = { operation: 'sync', direction: 'inbound', status: 'processing' } as const
        return { syncLogId: await insertLog(tx, tables, { integrationId, ...opened, metadata }), isNew: true }
      })
      if (isNew)
        logger.info(
          {
            event: 'sync.started',
            integration: integrationId,
            run: syncLogId,
            incremental: metadata.incremental,
            cursor: metadata.cursor_before,
          },
          'sync run started',
        )
      return { kind: 'open', syncLogId, settings }
    },

    /**
     * Asks the provider for its items and stores them. Each try begins by deleting what an earlier one stored: items
     * start only after a whole listing, so none of them has begun.
     */
    async listSyncItems({ integrationId, syncLogId }: { integrationId: number; syncLogId: number }): Promise<Listing> {
      const context = Context.current()
      const log = await findLog(db, tables, syncLogId)
      const row = await findIntegration(db, tables, integrationId)
      if (log === null || row === null)
        throw asFailure(new Error('the run or its integration is gone'), { secrets: [], nonRetryable: true })
      const metadata = log.metadata as RunMetadata
      if (metadata.enumerated) return listingOf(metadata)
      await deleteUnstartedItems(db, tables, syncLogId)
      return await list(row, log, context)
    },

    /** The listing is given up: nothing of it is kept, the cursor stays, the next run is planned. */
    async failSyncRun({
      integrationId,
      syncLogId,
      reason,
    }: {
      integrationId: number
      syncLogId: number
      reason: string
    }): Promise<void> {
      await db.transaction(async (tx) => {
        const row = await lockIntegration(tx, tables, integrationId)
        const log = await lockLog(tx, tables, syncLogId)
        if (row === null || log === null || log.status !== 'processing') return
        await deleteUnstartedItems(tx, tables, syncLogId)
        await updateLog(tx, tables, syncLogId, {
          status: 'failed',
          error: reason.slice(0, 1_000),
          durationMs: ageOf(log),
        })
        await planNext(tx, row, { clean: false })
      })
      logger.error(
        { event: 'sync.failed', integration: integrationId, run: syncLogId, error: reason },
        'sync run failed: its listing did not end',
      )
    },

    /**
     * Ends the run once all its items have ended: status, counts, cursor and times in one transaction, under the locks of
     * the integration and of the run's log. Once only: the log must still be `processing`.
     */
    async finaliseSyncRun({
      integrationId,
      syncLogId,
    }: {
      integrationId: number
      syncLogId: number
    }): Promise<Finalisation> {
      const { result, cursor } = await db.transaction((tx) => finalise(tx, integrationId, syncLogId))
      if (result.kind === 'finalised')
        logger.info(
          {
            event: 'sync.finished',
            integration: integrationId,
            run: syncLogId,
            status: result.status,
            succeeded: result.succeeded,
            failed: result.failed,
            skipped: result.skipped,
            cursor,
          },
          'sync run finished',
        )
      return result
    },

    /** Tells the listeners of `SyncCompleted`. At least once: a worker may die between telling and noting it. */
    async announceSyncRun({ integrationId, syncLogId }: { integrationId: number; syncLogId: number }): Promise<void> {
      const log = await findLog(db, tables, syncLogId)
      const metadata = (log?.metadata ?? {}) as Record<string, Json>
      if (log === null || log.status === 'processing' || metadata.announced_at !== undefined) return
      const integration = await getIntegration(framework, integrationId)
      const status = log.status as RunStatus
      await listeners.emit('SyncCompleted', {
        integration,
        result: {
          kind: status,
          successCount: Number(metadata.success_count ?? 0),
          failureCount: Number(metadata.failure_count ?? 0),
          skippedCount: Number(metadata.skipped_count ?? 0),
          safeSyncedAt: status === 'success' ? integration.lastSyncedAt : null,
          cursor: integration.syncCursor,
        },
      })
      await mergeLogMetadata(db, tables, syncLogId, { announced_at: framework.clock.now().toISOString() })
    },
  }

  async function list(row: IntegrationRow, log: LogRow, context: Context): Promise<Listing> {
    const provider = providers.get(row.provider) as HasScheduledSync
    const metadata = log.metadata as RunMetadata
    const requestIds: number[] = []
    const session = new StoringSession({
      integration: integrationHandle(framework, row, {
        observe: (request) => {
          if (requestIds.length < MAX_REQUEST_IDS) requestIds.push(request.id)
        },
      }),
      syncLogId: log.id,
      cursor: metadata.cursor_before,
      signal: context.cancellationSignal,
      listeners,
      logger,
      softCap: config.sync.max_items_per_batch,
      store: (items) =>
        insertSyncItems(db, tables, { integrationId: row.id, syncLogId: log.id, batchId: metadata.run_id }, items),
    })
    try {
      if (hasIncrementalSync(provider)) await provider.syncIncremental(session.integration, session)
      else await provider.sync(session.integration, session)
      await session.close()
    } catch (error) {
      await session.abandon()
      throw listingFailure(row, provider, error, context)
    }
    const listing = { listed: session.count, duplicatesDropped: session.duplicatesDropped }
    await mergeLogMetadata(db, tables, log.id, {
      enumerated: true,
      listed: listing.listed,
      duplicates_dropped: listing.duplicatesDropped,
      request_ids: requestIds,
    })
    logger.info(
      { event: 'sync.listed', integration: row.id, run: log.id, items: listing.listed },
      'sync run listed its items',
    )
    return listing
  }

  function listingFailure(row: IntegrationRow, provider: HasScheduledSync, error: unknown, context: Context): Error {
    if (context.cancellationSignal.aborted) return error as Error
    const classOf = classifiesFailures(provider) ? (fault: unknown) => provider.classifyFailure(fault) : undefined
    const secrets = secretsOf(framework.encryption.decrypt(row.id, row.credentials))
    logger.warn(
      {
        event: 'sync.listing_failed',
        integration: row.id,
        attempt: context.info.attempt,
        error: redactedErrorLine(error, secrets, 500),
      },
      'a listing failed',
    )
    const nonRetryable = isFinalFault(error, classOf) || context.info.attempt >= LISTING_ATTEMPTS
    return asFailure(error, { secrets, nonRetryable })
  }

  async function finalise(
    tx: Transaction,
    integrationId: number,
    syncLogId: number,
  ): Promise<{ result: Finalisation; cursor: Json }> {
    const row = await lockIntegration(tx, tables, integrationId)
    const log = await lockLog(tx, tables, syncLogId)
    if (row === null || log === null) return notNow('the run or its integration is gone')
    const metadata = log.metadata as RunMetadata
    if (!metadata.enumerated) return notNow('the listing is not complete')
    const counts = await countItems(tx, tables, syncLogId)
    const before = (row.syncCursor ?? null) as Json
    if (log.status !== 'processing') return { result: finalised(log.status as RunStatus, counts), cursor: before }
    if (counts.pending + counts.processing > 0) {
      const waiting = await waitingItems(tx, tables, syncLogId, MAX_WAITING)
      const again = waiting.map((item) => ({ id: item.id, seconds: remainingWait(item) }))
      return { result: { kind: 'unfinished', pending: counts.pending, waiting: again }, cursor: before }
    }

    const status = runStatus({ succeeded: counts.success, failed: counts.failed, skipped: counts.skipped })
    const advanced = counts.failed === 0 ? await advancedCursor(tx, row, log) : null
    const cursor = advanced === null ? before : advanced.to
    await updateLog(tx, tables, syncLogId, {
      status,
      durationMs: ageOf(log),
      summary: `${counts.success} succeeded, ${counts.failed} failed, ${counts.skipped} skipped`,
      metadata: {
        ...metadata,
        success_count: counts.success,
        failure_count: counts.failed,
        skipped_count: counts.skipped,
        cursor_after: cursor,
      },
    })
    await planNext(tx, row, { clean: counts.failed === 0, ...(advanced === null ? {} : { cursor }) })
    return { result: finalised(status, counts), cursor }
  }

  /** The cursor after this clean run; null when it stays. An unresolved failure of an earlier run holds it too. */
  async function advancedCursor(tx: Transaction, row: IntegrationRow, log: LogRow): Promise<{ to: Json } | null> {
    const provider = providers.get(row.provider) as HasScheduledSync
    const reduce = (checkpoints: readonly Json[]): Json => provider.reduceCheckpoints(checkpoints)
    if (await hasUnresolvedFailure(tx, tables, row.id, log.id)) return null
    if (await cursorWasSetAfter(tx, tables, row.id, log.id)) return null
    let reduced: Json = null
    for await (const page of finishedCheckpoints(tx, tables, log.id, CHECKPOINT_PAGE))
      reduced = reduce(reduced === null ? page : [reduced, ...page])
    const step = nextCursor((row.syncCursor ?? null) as Json, [reduced], reduce)
    return step.kind === 'advance' ? { to: step.to } : null
  }

  async function planNext(tx: Transaction, row: IntegrationRow, run: { clean: boolean; cursor?: Json }): Promise<void> {
    const provider = providers.find(row.provider)
    const interval =
      provider !== null && hasScheduledSync(provider) ? intervalOf(row, provider) : row.syncIntervalMinutes
    const consecutiveFailures = run.clean ? 0 : row.consecutiveSyncFailures + 1
    const multiplier = intervalMultiplier(consecutiveFailures, config.sync.failure_backoff_max_multiplier)
    await recordRunTimes(tx, tables, row.id, {
      ...run,
      consecutiveFailures,
      intervalMinutes: interval === null ? null : interval * multiplier,
    })
  }

  function remainingWait(item: { attempts: number; updatedAt: Date }): number {
    const waited = (framework.clock.now().getTime() - item.updatedAt.getTime()) / 1_000
    return Math.max(0, Math.ceil(delayAfter(Math.max(item.attempts, 1), config.sync.item_backoff) - waited))
  }

  function ageOf(log: LogRow): number {
    return Math.max(0, framework.clock.now().getTime() - log.createdAt.getTime())
  }
}

function intervalOf(row: IntegrationRow, provider: HasScheduledSync): number | null {
  return effectiveIntervalMinutes(row.syncIntervalMinutes, provider.defaultSyncInterval?.() ?? null)
}

function listingOf(metadata: RunMetadata): Listing {
  return { listed: Number(metadata.listed ?? 0), duplicatesDropped: Number(metadata.duplicates_dropped ?? 0) }
}

function finalised(status: RunStatus, counts: ItemCounts): Extract<Finalisation, { kind: 'finalised' }> {
  return { kind: 'finalised', status, succeeded: counts.success, failed: counts.failed, skipped: counts.skipped }
}

function notNow(reason: string): { result: Finalisation; cursor: Json } {
  return { result: { kind: 'not this time', reason }, cursor: null }
}
