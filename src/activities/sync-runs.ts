/**
 * The steps of a sync run around its items: who is due, open, list, finalise, announce.
 *
 * Rule: docs/behaviour/syncs.md.
 */
import type { Json } from '../core/json.ts'
import { secretsOf } from '../core/redaction.ts'
import type { RunStatus } from '../core/sync-run.ts'
import { dueIntegrations, findIntegration, lockIntegration } from '../db/queries/integrations.ts'
import type { RunMetadata } from '../db/queries/logs.ts'
import { findLog, findRunLog, insertLog, mergeLogMetadata } from '../db/queries/logs.ts'
import { deleteUnstartedItems, insertSyncItems } from '../db/queries/sync-items.ts'
import type { IntegrationRow, LogRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { insideSync } from '../operations/inside-sync.ts'
import { getIntegration, integrationHandle } from '../operations/integration.ts'
import { redactedErrorLine } from '../operations/redacted-error.ts'
import type { Finalisation } from '../operations/sync-finalisation.ts'
import { failRun, finaliseRun } from '../operations/sync-finalisation.ts'
import type { HasScheduledSync } from '../providers/provider.ts'
import { classifiesFailures, hasIncrementalSync, hasScheduledSync } from '../providers/provider.ts'
import { asFailure, isFinalFault } from './failures.ts'
import type { Surroundings } from './surroundings.ts'
import { temporalSurroundings } from './surroundings.ts'
import { StoringSession } from './sync-session.ts'

export type { Finalisation } from '../operations/sync-finalisation.ts'

/** Integrations looked at in one dispatch; the next minute's takes the rest. */
const MAX_DUE = 1_000
/** A listing's own faults end it after so many attempts; a lost worker does not count against them. */
const LISTING_ATTEMPTS = 3
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

export function syncRunActivities(framework: Framework, surroundings = temporalSurroundings) {
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
      for (const row of due) if ((await framework.workflows.startSync(row.id, row.provider)) === 'started') started += 1
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
      const context = surroundings()
      const log = await findLog(db, tables, syncLogId)
      const row = await findIntegration(db, tables, integrationId)
      if (log === null || row === null)
        throw asFailure(new Error('the run or its integration is gone'), { secrets: [], nonRetryable: true })
      const metadata = log.metadata as RunMetadata
      if (metadata.enumerated) return listingOf(metadata)
      await deleteUnstartedItems(db, tables, syncLogId)
      return await list(row, log, context)
    },

    /** The run is given up: its log says why, the cursor stays, the next run is planned. Once only, as finalisation. */
    async failSyncRun({
      integrationId,
      syncLogId,
      reason,
    }: {
      integrationId: number
      syncLogId: number
      reason: string
    }): Promise<void> {
      await failRun(framework, { integrationId, syncLogId }, reason)
      logger.error(
        { event: 'sync.failed', integration: integrationId, run: syncLogId, error: reason },
        'sync run failed',
      )
    },

    /**
     * Ends the run once all its items have ended: status, counts, cursor and times. A second try finds it ended.
     */
    async finaliseSyncRun({
      integrationId,
      syncLogId,
    }: {
      integrationId: number
      syncLogId: number
    }): Promise<Finalisation> {
      const { result, cursor } = await finaliseRun(framework, { integrationId, syncLogId })
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

  async function list(row: IntegrationRow, log: LogRow, context: Surroundings): Promise<Listing> {
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
      await insideSync({ signal: context.cancellationSignal }, () =>
        hasIncrementalSync(provider)
          ? provider.syncIncremental(session.integration, session)
          : provider.sync(session.integration, session),
      )
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

  function listingFailure(
    row: IntegrationRow,
    provider: HasScheduledSync,
    error: unknown,
    context: Surroundings,
  ): Error {
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
}

function listingOf(metadata: RunMetadata): Listing {
  return { listed: Number(metadata.listed ?? 0), duplicatesDropped: Number(metadata.duplicates_dropped ?? 0) }
}
