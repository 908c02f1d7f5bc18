/**
 * One try of a listing: asks the provider, stores what it hands in, and says how it ended.
 *
 * Rule: docs/behaviour/sync-listing.md, "Tries of a listing".
 */

import { errorChain } from '../../calls/failure-class-rules.ts'
import { insideSync } from '../../calls/inside-sync.ts'
import { isFinalFault } from '../../calls/retry.ts'
import { secretsIn } from '../../credentials/integration-secrets.ts'
import type { LogRow } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { isIntegrationsError, ListingSuperseded, UnsupportedByProvider } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import type { Clock, Logger } from '../../framework/logger.ts'
import { boundLogger, integrationLogger } from '../../framework/logger.ts'
import { asPartOf } from '../../framework/origin.ts'
import { redactedErrorLine } from '../../framework/redacted-error.ts'
import { untilAborted } from '../../framework/waiting.ts'
import { integrationHandle } from '../../integrations/handle.ts'
import type { RunMetadata } from '../../observability/log-queries.ts'
import { findLog } from '../../observability/log-queries.ts'
import type { HasScheduledSync, IntegrationProvider } from '../../providers/contracts.ts'
import { hasBackfill, hasIncrementalSync, requireContract } from '../../providers/contracts.ts'
import { declaredStream, syncSource } from '../../providers/streams.ts'
import type { SyncSession } from '../../providers/sync-session.ts'
import { cursorBefore } from '../checkpoint-rules.ts'
import { checkedCursor } from '../cursor.ts'
import { deletePendingItems } from '../end-queries.ts'
import { askedSeconds } from '../items/item-rules.ts'
import type { RunIds } from '../run-rules.ts'
import type { SyncRow } from '../sync-rows.ts'
import { findSyncRow } from '../sync-rows.ts'
import { ListingBeginning } from './beginning-rules.ts'
import type { BegunListing, ListedItem, ListingNote } from './listing-queries.ts'
import { beginListing, listedKeys, storeListed } from './listing-queries.ts'
import type { Bookmark, FullListing } from './listing-session.ts'
import { StoringSession } from './listing-session.ts'
import type { UnchangedSoFar } from './unchanged-records.ts'
import { UnchangedRecords } from './unchanged-records.ts'

/** Ids kept in the log of a run, so that its requests can be found. */
const MAX_REQUEST_IDS = 1_000
const KEYS_PAGE = 10_000

export type Listing =
  | {
      readonly kind: 'listed'
      readonly listed: number
      readonly duplicatesDropped: number
      readonly unchanged?: number
    }
  /** The provider's limit was met: the listing is to be called again after `retryAfterSeconds`. */
  | {
      readonly kind: 'deferred'
      readonly retryAfterSeconds: number
      /** Whether this try set a bookmark: the next one gets further. */
      readonly isBookmarked: boolean
      /** Milliseconds of this try, without its wait for a worker. Absent: an earlier release does not say. */
      readonly tookMs?: number
    }

/** A try that failed, with the secrets that the error may quote. */
export interface FailedTry {
  readonly kind: 'failed'
  readonly error: unknown
  readonly secrets: readonly string[]
  /** Another try would fail in the same way. */
  readonly isFinal: boolean
  /** Milliseconds. Absent: it has not asked the provider. */
  readonly tookMs?: number
  /** Until the next try, at least. Absent: it may come as after any fault. */
  readonly minimumWaitSeconds?: number
}

export interface ListingInput extends RunIds {
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
  /** Not there: the stream has no `skipUnchanged`. */
  readonly unchanged?: UnchangedSoFar
  /** ISO 8601: the beginning of the try that set it, or of an earlier one whose bookmark that try went on from. */
  readonly began_at: string
}

/** @param signal aborted when the worker stops or the run is cancelled. @throws the signal's reason */
export async function listItems(
  framework: Framework,
  input: ListingInput,
  signal: AbortSignal,
): Promise<Listing | FailedTry> {
  const { db, tables } = framework
  const begun = await beginListing(db, tables, input)
  if (begun === null) return listedBefore(framework, input)
  const row = await findSyncRow(db, tables, begun.log)
  if (row === null) return isGone()
  return listBegun(framework, { row, ...begun, attempt: input.attempt }, signal)
}

/** Why this try may not list: the listing is complete, or is another one's now. */
async function listedBefore({ db, tables }: Framework, { syncLogId }: ListingInput): Promise<Listing | FailedTry> {
  const log = await findLog(db, tables, syncLogId)
  if (log === null) return isGone()
  const { enumerated, listed, duplicates_dropped: dropped, unchanged } = (log.metadata ?? {}) as Partial<RunMetadata>
  if (enumerated) return listing(Number(listed ?? 0), Number(dropped ?? 0), Number(unchanged ?? 0))
  const isFinal = log.status !== 'processing'
  return { kind: 'failed', error: new ListingSuperseded(syncLogId), secrets: [], isFinal }
}

function listing(listed: number, duplicatesDropped: number, unchanged: number): Listing {
  return { kind: 'listed', listed, duplicatesDropped, ...(unchanged === 0 ? {} : { unchanged }) }
}

function isGone(): FailedTry {
  return { kind: 'failed', error: new Error('the run or its integration is gone'), secrets: [], isFinal: true }
}

interface BegunTry extends BegunListing {
  readonly row: SyncRow
  readonly attempt: number
}

/** A try that has begun. @throws the signal's reason: Temporal tells by it a cancellation, a time limit and a stopping worker apart */
export async function listBegun(
  framework: Framework,
  { row, log, startedAt, attempt }: BegunTry,
  signal: AbortSignal,
): Promise<Listing | FailedTry> {
  const { db, tables, config, listeners, models } = framework
  const bookmark = bookmarkOf(log)
  // Items start only after a whole listing, and the bookmark vouches for those up to its own.
  if (attempt > 1) await deletePendingItems(db, tables, log.id, bookmark?.item_id ?? 0)
  const endsAt = performance.now() + config.sync.job_timeout * 1_000
  const elapsedMs = stopwatch(framework.clock)
  const beginning = new ListingBeginning(startedAt, bookmark === null ? null : new Date(bookmark.began_at))
  const requestIds = [...(bookmark?.request_ids ?? [])]
  const provider = framework.providers.find(row.provider)
  const source = provider === null ? null : syncSource(provider, row.stream)
  const model = provider === null ? undefined : declaredStream(provider, row.stream)?.model
  const logger = boundLogger(integrationLogger(framework, row), { sync_log: log.id })
  const unchanged = unchangedRecords(framework, log, source)
  const soFar: SoFar = { beginning, requestIds, unchanged }
  let lastId = bookmark?.item_id ?? 0
  const write = async (items: readonly ListedItem[], note: ListingNote | null): Promise<void> => {
    if (items.length === 0 && note === null) return
    const batchId = metadataOf(log).run_id
    const run = { integrationId: row.id, stream: row.stream, syncLogId: log.id, batchId, attempt }
    const stored = await storeListed(db, tables, run, { items, note, lastId })
    if (stored === null) throw new ListingSuperseded(log.id)
    lastId = stored
  }
  const session = new StoringSession({
    integration: integrationHandle(framework, row, {
      observe: (request) => {
        if (requestIds.length < MAX_REQUEST_IDS) requestIds.push(request.id)
      },
      observeDate: (date) => beginning.heard(date, elapsedMs() / 1_000),
    }),
    syncLogId: log.id,
    cursor: isFull(log) ? null : overlapped(metadataOf(log).cursor_before ?? null, provider, row),
    stream: row.stream,
    model,
    resume: bookmark === null ? null : { ...bookmark, fullListing: fullListingOf(bookmark) },
    signal,
    listeners,
    logger: framework.logger,
    reduce: (checkpoints) => (source as HasScheduledSync).reduceCheckpoints(checkpoints),
    softCap: config.sync.max_items_per_batch,
    isWindow: log.operation === 'backfill',
    models,
    async store(listed, at) {
      const items = await changedAmong(listed, unchanged)
      await write(items, at === null ? null : bookmarkNote(at, soFar))
    },
  })

  try {
    if (attempt > 1) await unchanged?.resume((eventClass, id) => session.know(eventClass, id, null))
    if (lastId > 0)
      for await (const page of listedKeys(db, tables, log.id, KEYS_PAGE))
        for (const item of page) {
          unchanged?.noteStored(item)
          session.know(item.eventClass, item.externalId, item.checkpoint)
        }
    // Provider code that goes on after its listing has ended is refused by the session.
    await untilAborted(
      asPartOf(tables, 'run', log.id, () =>
        insideSync({ signal: session.signal, stream: row.stream, endsAt }, async () =>
          ask(framework, row, log, session),
        ),
      ),
      session.signal,
    )
    if (isFull(log) && session.fullListingOf === null && model !== undefined) session.fullListing()
    const rest = await changedAmong(await session.close(), unchanged)
    await write(rest, completeNote(session, soFar))
  } catch (thrown) {
    // An error after the listing was told to end only says that its end was noticed.
    const error: unknown = session.signal.aborted ? session.signal.reason : thrown
    await session.abandon(session.signal.aborted ? error : undefined)
    signal.throwIfAborted()
    return endedBy(error, { session, provider, attempt, logger, elapsedMs })
  }
  const same = unchanged?.soFar.count ?? 0
  logger.info(
    { event: 'sync.listed', items: session.count, ...(same === 0 ? {} : { unchanged: same }) },
    'sync run listed its items',
  )
  return listing(session.count, session.duplicatesDropped, same)
}

/** Gives the milliseconds since it was made. In a simulation only the clock's time follows from the plan. */
function stopwatch(clock: Clock): () => number {
  const nowMs = clock.wait === undefined ? () => performance.now() : () => clock.now().getTime()
  const startedAt = nowMs()
  return () => nowMs() - startedAt
}

function unchangedRecords(framework: Framework, log: LogRow, source: HasScheduledSync | null): UnchangedRecords | null {
  if (source?.skipUnchanged === undefined) return null
  return new UnchangedRecords(framework, {
    of: log,
    syncLogId: log.id,
    skip: source.skipUnchanged,
    compares: log.operation === 'sync',
    reduce: (checkpoints) => checkedCursor(source.reduceCheckpoints(checkpoints)),
    resume: bookmarkOf(log)?.unchanged ?? null,
  })
}

async function changedAmong(
  listed: readonly ListedItem[],
  unchanged: UnchangedRecords | null,
): Promise<readonly ListedItem[]> {
  return unchanged === null ? listed : unchanged.without(listed)
}

/** What the log notes beside the items. */
interface SoFar {
  readonly beginning: ListingBeginning
  readonly requestIds: readonly number[]
  /** Null: the stream has no `skipUnchanged`. */
  readonly unchanged: UnchangedRecords | null
}

function bookmarkNote(at: Bookmark, { beginning, requestIds, unchanged }: SoFar): ListingNote {
  const bookmark: Omit<StoredBookmark, 'item_id'> = {
    position: at.position,
    count: at.count,
    duplicates: at.duplicates,
    request_ids: [...requestIds],
    full_listing: storedFullListing(at.fullListing),
    began_at: beginning.at.toISOString(),
    ...(unchanged === null ? {} : { unchanged: unchanged.soFar }),
  }
  return { kind: 'bookmark', bookmark }
}

function completeNote(session: StoringSession, { beginning, requestIds, unchanged }: SoFar): ListingNote {
  const { count, duplicatesDropped, fullListingOf: full } = session
  const metadata = {
    enumerated: true,
    listing_began_at: beginning.at.toISOString(),
    listed: count,
    duplicates_dropped: duplicatesDropped,
    request_ids: [...requestIds],
    ...(full === null ? {} : { full_listing: storedFullListing(full) }),
    ...(unchanged === null
      ? {}
      : { unchanged: unchanged.soFar.count, unchanged_checkpoint: unchanged.soFar.checkpoint }),
  }
  return { kind: 'complete', metadata }
}

interface EndedTry {
  readonly session: StoringSession
  readonly provider: IntegrationProvider | null
  readonly attempt: number
  readonly logger: Logger
  readonly elapsedMs: () => number
}

/** The limit of the provider puts the listing off; any other error fails the try. */
function endedBy(error: unknown, { session, provider, attempt, logger, elapsedMs }: EndedTry): Listing | FailedTry {
  const seconds = deferralSeconds(error)
  if (seconds !== null) {
    const { isBookmarked } = session
    logger.info(
      { event: 'sync.listing_deferred', attempt, seconds, bookmarked: isBookmarked },
      'a listing met the limit of the provider; it goes on later',
    )
    return { kind: 'deferred', retryAfterSeconds: seconds, isBookmarked, tookMs: Math.round(elapsedMs()) }
  }
  const secrets = secretsIn(session.integration)
  logger.warn(
    { event: 'sync.listing_failed', attempt, error: redactedErrorLine(error, secrets, 500) },
    'a listing failed',
  )
  // Before the cooldown is over the next try would meet the same open circuit.
  const open = errorChain(error).find((link) => isIntegrationsError(link, 'circuit_open'))
  return {
    kind: 'failed',
    error,
    secrets,
    isFinal: isFinalFault(error, provider),
    tookMs: Math.round(elapsedMs()),
    ...(open === undefined ? {} : { minimumWaitSeconds: askedSeconds(open) }),
  }
}

/** Null: the error is not a limit of the provider. */
function deferralSeconds(error: unknown): number | null {
  const limited = errorChain(error).find((link) => isIntegrationsError(link, 'rate_limit_exceeded'))
  // A wait of less, or none that can be used, would ask again and again without a pause.
  return limited === undefined ? null : Math.max(askedSeconds(limited), 1)
}

const metadataOf = (log: LogRow) => log.metadata as RunMetadata
const bookmarkOf = (log: LogRow) => (metadataOf(log).bookmark ?? null) as StoredBookmark | null
const isFull = (log: LogRow): boolean => metadataOf(log).full === true

/** Where the stream declares an overlap, the times of the cursor lie that much earlier. */
export function overlapped(cursor: Json, provider: IntegrationProvider | null, { stream }: SyncRow): Json {
  const seconds = provider === null ? undefined : declaredStream(provider, stream)?.overlapSeconds
  return seconds === undefined ? cursor : cursorBefore(cursor, seconds)
}

function ask(framework: Framework, row: SyncRow, log: LogRow, session: SyncSession): Promise<void> {
  const { integration } = session
  const registered = framework.providers.get(row.provider)
  const provider = syncSource(registered, row.stream)
  if (provider === null) throw new UnsupportedByProvider(row.provider, 'HasScheduledSync')
  if (log.operation === 'backfill') {
    const { from, to } = metadataOf(log).window as { from: string; to: string }
    const backfill = requireContract(row.provider, provider, hasBackfill, 'HasBackfill')
    return backfill.syncWindow(integration, session, { from: new Date(from), to: new Date(to) })
  }
  return isFull(log) ? provider.sync(integration, session) : listWhole(provider, session)
}

/** Calls the provider's listing from the cursor: `syncIncremental()`, where it has one. */
export function listWhole(provider: HasScheduledSync, session: SyncSession): Promise<void> {
  return hasIncrementalSync(provider)
    ? provider.syncIncremental(session.integration, session)
    : provider.sync(session.integration, session)
}

function fullListingOf({ full_listing }: StoredBookmark): FullListing | null {
  return full_listing === null ? null : { internalType: full_listing.internal_type }
}

function storedFullListing(fullListing: FullListing | null): StoredBookmark['full_listing'] {
  return fullListing === null ? null : { internal_type: fullListing.internalType }
}
