import type { Batch } from '../../claims/batch.ts'
import { runBatch, START_WINDOW_MS } from '../../claims/batch.ts'
import { heldBy } from '../../claims/claimed-rows.ts'
import type { LossRule } from '../../claims/claimed-work.ts'
import { ClaimedWork } from '../../claims/claimed-work.ts'
import { Ending } from '../../claims/ending.ts'
import type { Tally } from '../../claims/pump-jobs.ts'
import { afterLoss, claimAndItsLosses, lossesOf } from '../../claims/rules.ts'
import type { SyncItemRow } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { ItemTimedOut } from '../../framework/errors.ts'
import type { Logger } from '../../framework/logger.ts'
import { errorLine, integrationLogger } from '../../framework/logger.ts'
import { RepeatedWarnings } from '../../framework/repeated-warnings.ts'
import { patiently, withTimeLimit } from '../../framework/waiting.ts'
import type { IntegrationContext } from '../../integrations/integration-contexts.ts'
import { IntegrationContexts } from '../../integrations/integration-contexts.ts'
import type { IntegrationSubject } from '../../observability/metric-subject.ts'
import { declaredStream } from '../../providers/streams.ts'
import type { ItemChange } from '../record-queries.ts'
import { beginRecords } from '../record-queries.ts'
import type { LastFailure } from '../sync-jobs.ts'
import { namedStream } from '../sync-rows.ts'
import { givingWay } from './giving-way.ts'
import { settleAndRecord } from './item-failures.ts'
import type { GivenBack } from './item-queries.ts'
import { claimedItems, itemRecords, outdatedAmong, skipHeldItems } from './item-queries.ts'
import type { ItemRun, ItemWork } from './run-item.ts'
import { givenUp, runSyncItem } from './run-item.ts'

export interface RunItems {
  readonly claim: string
  /** Aborted when the worker stops or the run is cancelled. */
  readonly cancelled: AbortSignal
  readonly retry: ItemWork['retry']
  /** Where a row goes that no listener has seen. */
  readonly givenBack: GivenBack
  /** Before each item it waits for runs that begin. Default false. */
  readonly givesWay?: boolean
  /** Items with a newer copy in a later run are skipped. Default false. */
  readonly skipsOutdated?: boolean
  /** Milliseconds after the claim from which on no more items start. Default: 30 s. */
  readonly startWithinMs?: number
}

/** The `error` of an item of a backfill that was skipped. */
const OUTDATED = 'a later run has a newer copy'

/** Of an error, in the progress of a run. */
const MAX_TOLD_LENGTH = 300

/** Runs and settles the items of one claim: of a run's batch, or the one of a retry. */
export class ItemRunner {
  /** The longest deferral that was asked for. */
  deferredSeconds = 0
  /** Items that run again. */
  readonly waiting: { id: number; seconds: number; because: 'failed' | 'deferred' | 'not yet' | 'interrupted' }[] = []
  /** The last attempt that did not succeed; null: all succeeded. */
  lastFailure: LastFailure | null = null
  readonly #framework: Framework
  readonly #items: Omit<ItemWork, 'claimedAt' | 'change'>
  readonly #claim: string
  readonly #integrations: IntegrationContexts
  readonly #work: ClaimedWork<SyncItemRow, ItemRun>
  readonly #batch: Omit<
    Batch<SyncItemRow, IntegrationContext | null, ItemRun>,
    'rows' | 'run' | 'startBy' | 'concurrency'
  >
  readonly #ending: Ending
  readonly #startWithinMs: number
  readonly #skipsOutdated: boolean
  #told: Promise<void> = Promise.resolve()

  constructor(
    framework: Framework,
    { claim, cancelled, retry, givenBack, givesWay = false, skipsOutdated = false, ...how }: RunItems,
  ) {
    const { db, tables, logger } = framework
    this.#framework = framework
    this.#claim = claim
    this.#integrations = new IntegrationContexts(framework)
    this.#ending = new Ending(cancelled)
    this.#startWithinMs = how.startWithinMs ?? START_WINDOW_MS
    this.#skipsOutdated = skipsOutdated
    const waitsFor = givenBack.status === 'processing' ? givenBack.waitsFor : null
    this.#items = { cancelled, enough: this.#ending.signal, retry, waitsFor }
    const work = new ClaimedWork<SyncItemRow, ItemRun>(
      { db, logger, signal: cancelled },
      {
        rows: claimedItems(tables, givenBack),
        named: { event: 'item', field: 'sync_item', row: 'sync item' },
        providerOf: (id) => this.#integrations.subject(id).provider,
        store: (runs) => settleAndRecord(framework, runs),
        report: (run) => this.#report(run),
      },
    )
    this.#work = work
    const inTurn = <T>(step: () => Promise<T>): Promise<T> => (givesWay ? givingWay(framework, step) : step())
    this.#batch = {
      signal: cancelled,
      logger,
      prepare: (row) => inTurn(() => this.#integrations.read(row.integrationId)),
      settle: (runs) => inTurn(() => work.settle(runs)),
      handBack: async (unstarted) => {
        const back = await work.handBack(unstarted)
        if (givenBack.status === 'processing')
          this.waiting.push(...[...back].map((id) => ({ id, seconds: 0, because: 'interrupted' as const })))
      },
    }
  }

  get tally(): Tally {
    return this.#work.tally
  }

  /**
   * Takes up what an earlier try of the same activity left behind.
   *
   * @returns how many rows there were
   */
  async takeUpHeld(): Promise<number> {
    const { config, db, tables } = this.#framework
    const claim = this.#claim
    const losses: LossRule<SyncItemRow, ItemRun> = {
      count: (row) => lossesOf(row.claim ?? claim, claim),
      // How far its listeners came is not known, so an item that was not judged is foreign.
      oneMore: (row) => ({ claim: afterLoss(claim, losses.count(row) + 1), isOwn: row.isOwn ?? false }),
      note: (id) => this.#note(id),
      givenUp,
    }
    const heldRows = await heldBy(db, claimedItems(tables), claimAndItsLosses(claim))
    for (const group of takenUpTogether(heldRows, claim, config.sync.item_concurrency)) {
      const again: SyncItemRow[] = []
      for (const held of group) {
        const row = await this.#work.takeUp(held, losses)
        if (row !== null) again.push(row)
      }
      await this.#runClaimed(again)
    }
    return heldRows.length
  }

  /** @param rows as the claim gave them: those to run, and those that it refused */
  async run(rows: readonly SyncItemRow[]): Promise<void> {
    const refused = rows.filter(({ status }) => status === 'failed')
    await this.#begin(refused)
    for (const row of refused) {
      await this.#note(row.integrationId)
      this.#failed(row, row.error ?? '', new Error(row.error ?? ''))
      this.#work.tally.failed += 1
    }
    await this.#runClaimed(rows.filter(({ status }) => status === 'processing'))
  }

  /** Waits until listeners of `SyncItemFailed` have been told. */
  async end(): Promise<void> {
    await this.#told
    this.#ending.release()
  }

  /** @param claimed just now */
  async #runClaimed(claimed: readonly SyncItemRow[]): Promise<void> {
    const rows = this.#skipsOutdated ? await this.#withoutOutdated(claimed) : claimed
    const concurrency = await this.#concurrencyOf(rows)
    const work = { ...this.#items, claimedAt: this.#framework.clock.now() }
    const changes = await this.#begin(rows)
    await runBatch({
      ...this.#batch,
      concurrency,
      rows,
      startBy: performance.now() + this.#startWithinMs,
      run: (row, integration) =>
        runSyncItem(this.#framework, row, integration, { ...work, change: changes.get(row.id) ?? null }),
    })
  }

  /** Skips those that have a newer copy. Rule: docs/behaviour/sync-backfills.md, "Backfills". @returns the others */
  async #withoutOutdated(rows: readonly SyncItemRow[]): Promise<readonly SyncItemRow[]> {
    const { db, tables, logger, metrics } = this.#framework
    const how = { signal: this.#items.cancelled, logger }
    const ids = rows.map(({ id }) => id)
    const outdated = await patiently('looking for newer copies', () => outdatedAmong(db, tables, ids), how)
    const skipped = rows.filter(({ id }) => outdated.has(id))
    if (skipped.length === 0) return rows
    await patiently('skipping outdated items', () => skipHeldItems(db, tables, skipped, OUTDATED), how)
    for (const row of skipped) {
      await this.#note(row.integrationId)
      metrics.syncItemSettled(this.#subject(row), 'skipped')
    }
    return rows.filter(({ id }) => !outdated.has(id))
  }

  #begin(rows: readonly SyncItemRow[]): Promise<ReadonlyMap<number, ItemChange>> {
    const { db, tables, logger } = this.#framework
    const begin = () => beginRecords(db, tables, rows)
    return patiently('reading what is known of records', begin, { signal: this.#items.cancelled, logger })
  }

  /** The rows of a claim are of one stream. */
  async #concurrencyOf([row]: readonly SyncItemRow[]): Promise<number> {
    const { config, providers } = this.#framework
    const { item_concurrency: otherwise } = config.sync
    if (row === undefined || row.stream === null) return otherwise
    const key = (await this.#integrations.read(row.integrationId))?.handle.provider
    const provider = key === undefined ? null : providers.find(key)
    return (provider === null ? null : declaredStream(provider, row.stream)?.itemConcurrency) ?? otherwise
  }

  #subject({ integrationId, stream }: SyncItemRow): IntegrationSubject {
    return { ...this.#integrations.subject(integrationId), stream }
  }

  #report({ row, step, message, maxAttempts, error }: ItemRun): 'processed' | 'failed' | null {
    const { metrics } = this.#framework
    const subject = this.#subject(row)
    if (message !== null)
      this.lastFailure = { itemId: row.id, attempt: row.attempts, error: message.slice(0, MAX_TOLD_LENGTH) }
    if (step.kind === 'succeed') {
      metrics.syncItemSettled(subject, 'success')
      return 'processed'
    }
    if (step.kind === 'fail') {
      this.#failed(row, step.reason, error)
      return 'failed'
    }
    const { because, seconds } = step
    this.waiting.push({ id: row.id, seconds, because })
    if (because === 'failed')
      failedAttempt(this.#framework, { row, provider: subject.provider, error: message ?? '', maxAttempts, seconds })
    if (because === 'deferred') {
      this.deferredSeconds = Math.max(this.deferredSeconds, seconds)
      metrics.syncItemDeferred(subject)
    }
    return null
  }

  #failed(row: SyncItemRow, reason: string, error: unknown): void {
    this.#framework.metrics.syncItemSettled(this.#subject(row), 'failed')
    const logger = this.#loggerOf(row)
    logger.warn(
      { event: 'item.failed', sync_item: row.id, external_id: row.externalId, error: reason },
      'sync item failed',
    )
    // Beside the batch: a slow listener of the event holds up no other item's settlement.
    this.#told = this.#told.then(() => this.#tell(row, reason, error))
  }

  async #tell(row: SyncItemRow, reason: string, error: unknown): Promise<void> {
    const { config, db, tables, listeners } = this.#framework
    if (!listeners.has('SyncItemFailed')) return
    const limit = config.sync.item_timeout
    try {
      const integration = (await this.#integrations.read(row.integrationId))?.handle
      if (integration === undefined) return
      const found = (await itemRecords(db, tables, [row.id])).get(row.id)
      if (found === undefined) return
      // A retry may have taken the row again meanwhile.
      const event = { integration, item: { ...found, status: 'failed', error: reason }, error } as const
      await withTimeLimit(
        limit,
        () => new ItemTimedOut(limit),
        () => listeners.emit('SyncItemFailed', event),
      )
    } catch (fault) {
      const logger = this.#loggerOf(row)
      logger.error(
        { event: 'item.untold', sync_item: row.id, error: errorLine(fault, 300) },
        'some listeners of SyncItemFailed did not get this item',
      )
    }
  }

  /** For rows that are settled without having run: whose they are. Never throws. */
  async #note(id: number): Promise<void> {
    if (this.#integrations.known(id) === null) await this.#integrations.read(id).catch(() => null)
  }

  #loggerOf(row: SyncItemRow): Logger {
    return integrationLogger(this.#framework, this.#subject(row))
  }
}

/**
 * The order in which rows of a lost worker are taken up. Rule: docs/behaviour/sync-items.md, "Lost workers".
 *
 * Rows that have lost one worker run beside each other: most of them had not started, and one after the other a full batch of slow
 * handlers would take an hour. A row that has lost more runs alone: if this row kills workers, it takes no other row down.
 */
function takenUpTogether<Row extends { readonly claim: string | null }>(
  rows: readonly Row[],
  claim: string,
  concurrency: number,
): readonly Row[][] {
  const isFirstLoss = (row: Row): boolean => lossesOf(row.claim ?? claim, claim) === 0
  const first = rows.filter(isFirstLoss)
  const together: Row[][] = []
  for (let at = 0; at < first.length; at += concurrency) together.push(first.slice(at, at + concurrency))
  return [...together, ...rows.filter((row) => !isFirstLoss(row)).map((row) => [row])]
}

const WARNINGS = new WeakMap<Framework, RepeatedWarnings>()
/** Characters at the beginning of an error's text, which tell its kind. */
const KIND_LENGTH = 120

interface FailedAttempt {
  readonly row: SyncItemRow
  readonly provider: string | null
  readonly error: string
  readonly maxAttempts: number
  readonly seconds: number
}

/**
 * Logs an attempt that failed and is not the item's last. One cause can fail many items: the first failure of a kind is logged, then
 * one line a minute says how many there were. Rule: docs/behaviour/logs.md.
 */
function failedAttempt(framework: Framework, { row, provider, error, maxAttempts, seconds }: FailedAttempt): void {
  const warnings = WARNINGS.get(framework) ?? new RepeatedWarnings(framework.logger, framework.clock)
  WARNINGS.set(framework, warnings)
  warnings.warn(
    `${row.integrationId} ${row.syncLogId} ${errorPattern(error)}`,
    () => ({
      event: 'item.attempt_failed',
      integration: row.integrationId,
      provider,
      ...namedStream(row.stream),
      sync_log: row.syncLogId,
      sync_item: row.id,
      external_id: row.externalId,
      attempt: row.attempts,
      max_attempts: maxAttempts,
      retry_after_seconds: seconds,
      error,
    }),
    'an attempt of a sync item failed, and it is tried again',
  )
}

/** An error's text without what differs between items: numbers, and ids in hexadecimal. */
function errorPattern(error: string): string {
  return error
    .replace(/\b[0-9a-f]{8}[0-9a-f-]*\b/gi, '#')
    .replace(/\d+/g, '#')
    .slice(0, KIND_LENGTH)
}
