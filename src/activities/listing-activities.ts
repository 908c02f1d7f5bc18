/**
 * One try of a listing: asks the provider, stores what it hands in, and says how it ended.
 *
 * Rule: docs/behaviour/sync-listing.md, "Tries of a listing".
 */

import { errorChain } from '../calls/failure-class-rules.ts'
import { insideSync } from '../calls/inside-sync.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { IntegrationRow, LogRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { RateLimitExceededException } from '../framework/errors.ts'
import { isIntegrationsError, ListingSuperseded } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { untilAborted } from '../framework/waiting.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { findIntegration } from '../integrations/queries.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { findLog } from '../observability/log-queries.ts'
import type { HasScheduledSync, IntegrationProvider } from '../providers/contracts.ts'
import {
  classifiesFailures,
  hasBackfill,
  hasIncrementalSync,
  hasScheduledSync,
  requireContract,
} from '../providers/contracts.ts'
import { LONGEST_DEFERRAL_SECONDS } from '../syncs/items/item-rules.ts'
import { ListingBeginning } from '../syncs/listing/beginning-rules.ts'
import type { BegunListing, ListedItem, ListingNote } from '../syncs/listing/listing-queries.ts'
import { beginListing, deleteUnstartedItems, listedKeys, storeListed } from '../syncs/listing/listing-queries.ts'
import type { Bookmark, FullListing } from '../syncs/listing/listing-session.ts'
import { StoringSession } from '../syncs/listing/listing-session.ts'
import { asFailure, isFinalFault } from './activity-failures.ts'
import type { Surroundings } from './surroundings.ts'

/** Ids kept in the log of a run, so that its requests can be found. */
const MAX_REQUEST_IDS = 1_000
const KEYS_PAGE = 10_000

export type Listing =
  | { readonly kind: 'listed'; readonly listed: number; readonly duplicatesDropped: number }
  /** The provider's limit was met: to be asked again after so long. */
  | {
      readonly kind: 'deferred'
      readonly retryAfterSeconds: number
      /** Whether this try set a bookmark: the next one gets further. */
      readonly isBookmarked: boolean
    }

export interface ListingInput {
  readonly integrationId: number
  readonly syncLogId: number
  /** Of the workflow, from 1: of two tries that overlap, only the later one may store. */
  readonly attempt: number
}

/** A bookmark as the log keeps it. */
type StoredBookmark = {
  readonly position: Json
  readonly item_id: number
  readonly count: number
  readonly duplicates: number
  readonly request_ids: readonly number[]
  readonly full_listing: { readonly internal_type: string | null } | null
  /** ISO 8601: the beginning of the try that set it, or of the one before that it went on from. */
  readonly began_at: string
}

export async function listItems(framework: Framework, input: ListingInput, context: Surroundings): Promise<Listing> {
  const { db, tables } = framework
  const row = await findIntegration(db, tables, input.integrationId)
  const begun = row === null ? null : await beginListing(db, tables, input)
  if (row === null || begun === null) return await listedBefore(framework, input, row)
  return await listBegun(framework, { row, ...begun, attempt: input.attempt }, context)
}

/** A try that has begun. */
export async function listBegun(
  framework: Framework,
  { row, log, startedAt, attempt }: BegunListing & { readonly row: IntegrationRow; readonly attempt: number },
  context: Surroundings,
): Promise<Listing> {
  const { db, tables } = framework
  const bookmark = ((log.metadata as RunMetadata).bookmark ?? null) as StoredBookmark | null
  if (attempt > 1) await deleteUnstartedItems(db, tables, log.id, bookmark?.item_id ?? 0)
  const beginning = new ListingBeginning(startedAt, bookmark === null ? null : new Date(bookmark.began_at))
  return await new ListingTry(framework, row, log, { attempt, bookmark, beginning }, context).run()
}

/** Why this try may not list: the listing is complete, or this is not the run's listing any more. */
async function listedBefore(
  { db, tables }: Framework,
  { syncLogId }: ListingInput,
  row: IntegrationRow | null,
): Promise<Listing> {
  const log = await findLog(db, tables, syncLogId)
  if (log === null || row === null)
    throw asFailure(new Error('the run or its integration is gone'), { secrets: [], nonRetryable: true })
  const metadata = log.metadata as RunMetadata
  if (metadata.enumerated)
    return {
      kind: 'listed',
      listed: Number(metadata.listed ?? 0),
      duplicatesDropped: Number(metadata.duplicates_dropped ?? 0),
    }
  throw asFailure(new ListingSuperseded(syncLogId), { secrets: [], nonRetryable: log.status !== 'processing' })
}

interface TryInput {
  readonly attempt: number
  readonly bookmark: StoredBookmark | null
  readonly beginning: ListingBeginning
}

class ListingTry {
  readonly #framework: Framework
  readonly #row: IntegrationRow
  readonly #log: LogRow
  readonly #metadata: RunMetadata
  readonly #attempt: number
  readonly #context: Surroundings
  readonly #provider: IntegrationProvider | null
  readonly #session: StoringSession
  readonly #requestIds: number[]
  readonly #beginning: ListingBeginning
  readonly #endsAt: number
  #lastId: number

  constructor(
    framework: Framework,
    row: IntegrationRow,
    log: LogRow,
    { attempt, bookmark, beginning }: TryInput,
    context: Surroundings,
  ) {
    const startedAt = performance.now()
    this.#endsAt = startedAt + framework.config.sync.job_timeout * 1_000
    this.#framework = framework
    this.#row = row
    this.#log = log
    this.#metadata = log.metadata as RunMetadata
    this.#attempt = attempt
    this.#context = context
    this.#provider = framework.providers.find(row.provider)
    this.#requestIds = [...(bookmark?.request_ids ?? [])]
    this.#beginning = beginning
    this.#lastId = bookmark?.item_id ?? 0
    this.#session = new StoringSession({
      integration: integrationHandle(framework, row, {
        observe: (request) => {
          if (this.#requestIds.length < MAX_REQUEST_IDS) this.#requestIds.push(request.id)
        },
        observeDate: (date) => beginning.heard(date, (performance.now() - startedAt) / 1_000),
      }),
      syncLogId: log.id,
      cursor: this.#metadata.cursor_before ?? null,
      resume: bookmark === null ? null : resumption(bookmark),
      signal: context.cancellationSignal,
      listeners: framework.listeners,
      logger: framework.logger,
      reduce: (checkpoints) => (this.#provider as HasScheduledSync).reduceCheckpoints(checkpoints),
      softCap: framework.config.sync.max_items_per_batch,
      isWindow: log.operation === 'backfill',
      models: framework.models,
      store: (items, at) => this.#store(items, at === null ? null : { kind: 'bookmark', bookmark: this.#kept(at) }),
    })
  }

  async run(): Promise<Listing> {
    const session = this.#session
    try {
      await this.#knowKept()
      // Its session refuses whatever a provider's code hands in that goes on after its listing has ended.
      await untilAborted(
        insideSync({ signal: session.signal, endsAt: this.#endsAt }, async () => this.#ask()),
        session.signal,
      )
      const rest = await session.close()
      await this.#store(rest, { kind: 'complete', metadata: this.#listed() })
    } catch (thrown) {
      // What was thrown after the end of the listing was ordered only tells that its end was noticed.
      const error: unknown = session.signal.aborted ? session.signal.reason : thrown
      await session.abandon(session.signal.aborted ? error : undefined)
      return this.#ended(error)
    }
    this.#framework.logger.info(
      {
        event: 'sync.listed',
        integration: this.#row.id,
        provider: this.#row.provider,
        sync_log: this.#log.id,
        items: session.count,
      },
      'sync run listed its items',
    )
    return { kind: 'listed', listed: session.count, duplicatesDropped: session.duplicatesDropped }
  }

  #ask(): Promise<void> {
    const { integration } = this.#session
    const provider = requireContract<HasScheduledSync>(
      this.#row.provider,
      this.#framework.providers.get(this.#row.provider),
      hasScheduledSync,
      'HasScheduledSync',
    )
    if (this.#log.operation === 'backfill') {
      const { from, to } = this.#metadata.window as { from: string; to: string }
      const backfill = requireContract(this.#row.provider, provider, hasBackfill, 'HasBackfill')
      return backfill.syncWindow(integration, this.#session, { from: new Date(from), to: new Date(to) })
    }
    return hasIncrementalSync(provider)
      ? provider.syncIncremental(integration, this.#session)
      : provider.sync(integration, this.#session)
  }

  async #knowKept(): Promise<void> {
    const { db, tables } = this.#framework
    if (this.#lastId === 0) return
    for await (const page of listedKeys(db, tables, this.#log.id, KEYS_PAGE))
      for (const { eventClass, externalId, checkpoint } of page) this.#session.know(eventClass, externalId, checkpoint)
  }

  async #store(items: readonly ListedItem[], note: ListingNote | null): Promise<void> {
    const run = {
      integrationId: this.#row.id,
      syncLogId: this.#log.id,
      batchId: this.#metadata.run_id,
      attempt: this.#attempt,
    }
    const { db, tables } = this.#framework
    const lastId = await storeListed(db, tables, run, { items, note, lastId: this.#lastId })
    if (lastId === null) throw new ListingSuperseded(this.#log.id)
    this.#lastId = lastId
  }

  #kept({ position, count, duplicates, fullListing }: Bookmark): Omit<StoredBookmark, 'item_id'> {
    return {
      position,
      count,
      duplicates,
      request_ids: [...this.#requestIds],
      full_listing: storedFullListing(fullListing),
      began_at: this.#beginning.at.toISOString(),
    }
  }

  #listed(): Record<string, Json> {
    const { count, duplicatesDropped, fullListingOf } = this.#session
    return {
      enumerated: true,
      listing_began_at: this.#beginning.at.toISOString(),
      listed: count,
      duplicates_dropped: duplicatesDropped,
      request_ids: this.#requestIds,
      ...(fullListingOf === null ? {} : { full_listing: storedFullListing(fullListingOf) }),
    }
  }

  /** @throws what the workflow is told */
  #ended(error: unknown): Listing {
    const { logger } = this.#framework
    // Cancelled, over its time, or the worker stops: Temporal tells these apart by this very error.
    if (this.#context.cancellationSignal.aborted) throw this.#context.cancellationSignal.reason
    const { id: integration, provider: name } = this.#row
    const about = { integration, provider: name, sync_log: this.#log.id, attempt: this.#attempt }
    const limited = errorChain(error).find((link): link is RateLimitExceededException =>
      isIntegrationsError(link, 'rate_limit_exceeded'),
    )
    if (limited !== undefined) {
      const { retryAfterSeconds: asked } = limited
      // One that says less, or nothing of use, would be asked again and again without a pause.
      const retryAfterSeconds = Number.isFinite(asked) ? Math.min(Math.max(asked, 1), LONGEST_DEFERRAL_SECONDS) : 1
      const { isBookmarked } = this.#session
      logger.info(
        { event: 'sync.listing_deferred', ...about, seconds: retryAfterSeconds, bookmarked: isBookmarked },
        'a listing met the limit of the provider; it goes on later',
      )
      return { kind: 'deferred', retryAfterSeconds, isBookmarked }
    }
    const provider = this.#provider
    const classOf =
      provider !== null && classifiesFailures(provider)
        ? (fault: unknown) => provider.classifyFailure(fault)
        : undefined
    const secrets = secretsIn(this.#session.integration)
    logger.warn(
      { event: 'sync.listing_failed', ...about, error: redactedErrorLine(error, secrets, 500) },
      'a listing failed',
    )
    throw asFailure(error, { secrets, nonRetryable: isFinalFault(error, classOf) })
  }
}

function resumption({ position, count, duplicates, full_listing }: StoredBookmark): Bookmark {
  const fullListing: FullListing | null = full_listing === null ? null : { internalType: full_listing.internal_type }
  return { position, count, duplicates, fullListing }
}

function storedFullListing(fullListing: FullListing | null): StoredBookmark['full_listing'] {
  return fullListing === null ? null : { internal_type: fullListing.internalType }
}
