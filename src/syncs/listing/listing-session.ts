/**
 * The session behind a provider's `sync()`: checks each item at once, stores them in chunks, keeps bookmarks.
 *
 * Rule: docs/behaviour/sync-listing.md, "The session".
 */

import type { Listeners } from '../../events/listeners.ts'
import { InvalidArgumentException, SyncSessionClosed } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { jsonEquals } from '../../framework/json.ts'
import type { Logger } from '../../framework/logger.ts'
import { boundLogger, integrationLogger } from '../../framework/logger.ts'
import type { ExternalId, Integration } from '../../providers/integration.ts'
import type { SyncItemEvent, SyncItemEventClass } from '../../providers/provider-events.ts'
import type { SyncSession } from '../../providers/sync-session.ts'
import { isNewerCopy } from '../checkpoint-rules.ts'
import { bookmarkPosition, listedExternalId, listedItem, listedModel, warnOfListing } from './listed-item.ts'
import type { ListedItem, NewSyncItem } from './listing-queries.ts'

/** The item that fills a chunk waits for its insert: a fast listing never outruns the database, nor the memory. */
const CHUNK_ROWS = 500
const CHUNK_CHARACTERS = 4_194_304

/** A place in the listing: all that was handed in before it is whole. */
export interface Bookmark {
  readonly position: Json
  /** Items up to it, dropped duplicates not counted. */
  readonly count: number
  readonly duplicates: number
  /** What fullListing() was told. */
  readonly fullListing: FullListing | null
}

export interface FullListing {
  readonly internalType: string | null
}

export interface SessionOptions {
  readonly integration: Integration
  readonly syncLogId: number
  readonly cursor: Json
  /** Null: the integration's own. */
  readonly stream: string | null
  /** Where an earlier try of the listing got to; null: the listing begins at its beginning. */
  readonly resume: Bookmark | null
  readonly signal: AbortSignal
  readonly listeners: Listeners
  readonly logger: Logger
  /** The provider's reducer: it says which of two copies of an item is newer. */
  reduce(checkpoints: readonly Json[]): Json
  /** `sync.max_items_per_batch`: one warning beyond it, the run goes on. */
  readonly softCap: number
  /** A listing of a window is never a full one. */
  readonly isWindow: boolean
  /** The model that fullListing() speaks for unless it names one; not given: none. */
  readonly model?: string | undefined
  /** Models that fullListing() may name; null: any. */
  readonly models: ReadonlyMap<string, unknown> | null
  /** Stores items, and then the bookmark that vouches for all up to them. A rejection ends the listing. */
  store(items: readonly ListedItem[], bookmark: Bookmark | null): Promise<void>
  /** Called with each refusal of an item or a bookmark. */
  onRefused?(error: unknown): void
}

/** The checkpoint of an item without one, as JSON text. */
const NO_CHECKPOINT = 'null'

export class StoringSession implements SyncSession {
  readonly integration: Integration
  readonly syncLogId: number
  readonly signal: AbortSignal
  readonly #options: SessionOptions
  readonly #logger: Logger
  readonly #abort = new AbortController()
  /** A refusal that the provider's code does not notice ends the listing: else an item would be missing unseen. */
  readonly #refusals = new Refusals((error) => this.#abort.abort(error))
  #buffer: ListedItem[] = []
  #bufferedCharacters = 0
  /** Places in the buffer by class and external id: a newer copy takes the place of an older one. */
  readonly #bufferedAt = new Map<string, number>()
  /** By class and external id the checkpoint of the copy that is kept, as JSON text. */
  readonly #seen = new Map<string, Map<string, string>>()
  #count: number
  #dropped: number
  #replaced = 0
  #fullListing: FullListing | null
  #isBookmarked = false
  #closed = false
  #writing: Promise<void> = Promise.resolve()

  constructor(options: SessionOptions) {
    this.#options = options
    this.integration = options.integration
    this.syncLogId = options.syncLogId
    const { id, provider } = options.integration
    const logger = integrationLogger(options, { id, provider, stream: options.stream })
    this.#logger = boundLogger(logger, { sync_log: options.syncLogId })
    this.signal = AbortSignal.any([options.signal, this.#abort.signal])
    this.#count = options.resume?.count ?? 0
    this.#dropped = options.resume?.duplicates ?? 0
    this.#fullListing = options.resume?.fullListing ?? null
  }

  cursor(): Json {
    return this.#options.cursor
  }

  get count(): number {
    return this.#count
  }

  get isEmpty(): boolean {
    return this.#count === 0
  }

  get duplicatesDropped(): number {
    return this.#dropped
  }

  /** Number of the duplicates that were newer copies: they take the place of the older ones. */
  get duplicatesReplacing(): number {
    return this.#replaced
  }

  /** Whether this try has stored a bookmark beyond the one that it began with. */
  get isBookmarked(): boolean {
    return this.#isBookmarked
  }

  get fullListingOf(): FullListing | null {
    return this.#fullListing
  }

  resumeFrom(): Json {
    return this.#options.resume?.position ?? null
  }

  /** An item of an earlier try that is kept. @param checkpoint as JSON text */
  know(eventClass: string, externalId: ExternalId | null, checkpoint: string | null): void {
    const id = listedExternalId(externalId)
    if (id !== null) this.#seenOf(eventClass).set(id, checkpoint ?? NO_CHECKPOINT)
  }

  has({ type }: SyncItemEventClass, externalId: ExternalId): boolean {
    const id = listedExternalId(externalId)
    return id !== null && this.#seen.get(type)?.has(id) === true
  }

  // Not `async`: its own promise, rejected and not awaited, would end the process.
  dispatch(
    event: SyncItemEvent<unknown>,
    checkpointValue: Json = null,
    externalId: ExternalId | null = null,
  ): Promise<void> {
    if (this.signal.aborted || this.#closed) return this.#tooLate()
    let item: NewSyncItem
    try {
      item = listedItem(this.#options.listeners, event, checkpointValue, externalId)
    } catch (error) {
      return this.#refuse(error)
    }
    const kept = this.#keptCheckpointOf(item)
    if (kept !== null) return this.#repeated(item, kept)
    this.#count += 1
    if (this.#count === this.#options.softCap + 1)
      this.#logger.warn(
        { event: 'sync.many_items', cap: this.#options.softCap },
        'the run has more items than sync.max_items_per_batch; it goes on',
      )
    return this.#take(item, { isRepeat: false })
  }

  bookmark(position: Json): Promise<void> {
    if (this.signal.aborted || this.#closed) return this.#tooLate()
    try {
      position = bookmarkPosition(position)
    } catch (error) {
      return this.#refuse(error)
    }
    const fullListing = this.#fullListing
    return this.#flush({ position, count: this.#count, duplicates: this.#dropped, fullListing })
  }

  fullListing(internalType?: string): void {
    this.#mustBeOpen()
    const { models, isWindow, stream, model } = this.#options
    if (isWindow)
      throw new InvalidArgumentException(
        'fullListing',
        'it is allowed in sync() and syncIncremental(); this is syncWindow(), which lists a part only',
      )
    const named = listedModel(models, internalType ?? model)
    // Without a model it would speak for the mapped ids of all streams.
    if (stream !== null && named === null)
      throw new InvalidArgumentException(
        'internalType',
        `the model that the stream "${stream}" is mapped to is allowed; nothing was given`,
      )
    this.#fullListing = { internalType: named }
  }

  warn(...given: Parameters<SyncSession['warn']>): void {
    warnOfListing(this.#options.logger, this, ...given)
  }

  /**
   * Waits for what is being stored; later calls throw.
   *
   * @returns what is left to be stored
   * @throws what could not be stored, or a refusal that was not noticed
   */
  async close(): Promise<readonly ListedItem[]> {
    this.#closed = true
    const rest = this.#emptied()
    await this.#writing
    this.#refusals.throwUnnoticed()
    return rest
  }

  /**
   * Stores no more, and waits for what is being stored: no row of a failed listing may land after its next try began.
   *
   * @param reason given: the provider's code may still be running, and is told by the signal
   */
  async abandon(reason?: unknown): Promise<void> {
    this.#closed = true
    this.#emptied()
    if (reason !== undefined) this.#abort.abort(reason)
    await this.#writing.catch(() => {})
  }

  #refuse(error: unknown): Promise<never> {
    this.#options.onRefused?.(error)
    return this.#refusals.refuse(error)
  }

  /** The answer to what is handed in too late: a rejection and a log line. */
  #tooLate(): Promise<void> {
    if (!this.signal.aborted)
      this.#logger.error(
        { event: 'sync.late_dispatch' },
        'an item or a bookmark was handed in after sync() had returned, and is not stored: await every call of the session',
      )
    const refused = Promise.reject(this.signal.aborted ? this.signal.reason : new SyncSessionClosed())
    refused.catch(() => {})
    return refused
  }

  #mustBeOpen(): void {
    this.signal.throwIfAborted()
    if (this.#closed) throw new SyncSessionClosed()
  }

  #flush(bookmark: Bookmark | null): Promise<void> {
    const chunk = this.#emptied()
    // One after the other, so that un-awaited calls keep their order too.
    this.#writing = this.#writing.then(async () => {
      await this.#options.store(chunk, bookmark)
      if (bookmark !== null && !jsonEquals(bookmark.position, this.resumeFrom())) this.#isBookmarked = true
    })
    // close() reports it. Until then the signal tells the provider's code, which may not have awaited it.
    this.#writing.catch((error: unknown) => this.#abort.abort(error))
    return this.#writing
  }

  #emptied(): readonly ListedItem[] {
    const chunk = this.#buffer
    this.#buffer = []
    this.#bufferedCharacters = 0
    this.#bufferedAt.clear()
    return chunk
  }

  #seenOf(eventClass: string): Map<string, string> {
    const seen = this.#seen.get(eventClass) ?? new Map<string, string>()
    this.#seen.set(eventClass, seen)
    return seen
  }

  /** Null: the run has no item of this class and external id. */
  #keptCheckpointOf({ eventClass, externalId }: NewSyncItem): string | null {
    return externalId === null ? null : (this.#seen.get(eventClass)?.get(externalId) ?? null)
  }

  #take(item: NewSyncItem, { isRepeat }: { readonly isRepeat: boolean }): Promise<void> {
    if (item.externalId !== null) {
      this.#seenOf(item.eventClass).set(item.externalId, item.checkpoint)
      this.#bufferedAt.set(keyOf(item), this.#buffer.length)
    }
    this.#buffer.push({ ...item, isRepeat })
    return this.#grown(charactersOf(item))
  }

  #repeated(item: NewSyncItem, keptCheckpoint: string): Promise<void> {
    const { reduce } = this.#options
    const isNewer = isNewerCopy(JSON.parse(keptCheckpoint) as Json, JSON.parse(item.checkpoint) as Json, reduce)
    this.#dropped += 1
    this.#logger.warn(
      { event: 'sync.item_repeated', external_id: item.externalId, kept: isNewer ? 'later' : 'earlier' },
      'an item was listed twice in this run; the newer copy is kept',
    )
    if (!isNewer) return Promise.resolve()
    this.#replaced += 1
    const place = this.#bufferedAt.get(keyOf(item))
    const older = place === undefined ? undefined : this.#buffer[place]
    if (place === undefined || older === undefined) return this.#take(item, { isRepeat: true })
    this.#seenOf(item.eventClass).set(item.externalId as string, item.checkpoint)
    this.#buffer[place] = { ...item, isRepeat: older.isRepeat }
    return this.#grown(charactersOf(item) - charactersOf(older))
  }

  /** The item that fills a chunk waits until it is stored. */
  #grown(characters: number): Promise<void> {
    this.#bufferedCharacters += characters
    const isFull = this.#buffer.length >= CHUNK_ROWS || this.#bufferedCharacters >= CHUNK_CHARACTERS
    return isFull ? this.#flush(null) : Promise.resolve()
  }
}

export function keyOf({ eventClass, externalId }: Pick<NewSyncItem, 'eventClass' | 'externalId'>): string {
  return `${eventClass}\u0000${externalId}`
}

function charactersOf({ payload, checkpoint }: NewSyncItem): number {
  return payload.length + checkpoint.length
}

/**
 * Refusals are rejections that the provider's code may notice, and then go on. A rejection that is not awaited by the next
 * turn of the event loop would end a Node process; here the session learns of it, and fails the listing.
 */
class Refusals {
  readonly #unnoticed = new Set<{ readonly error: unknown }>()
  readonly #onUnnoticed: (error: unknown) => void

  constructor(onUnnoticed: (error: unknown) => void) {
    this.#onUnnoticed = onUnnoticed
  }

  refuse(error: unknown): Promise<never> {
    const refusal = { error }
    const rejection = noticeable(error, () => this.#unnoticed.delete(refusal))
    this.#unnoticed.add(refusal)
    setImmediate(() => this.#unnoticed.has(refusal) && this.#onUnnoticed(error))
    return rejection
  }

  /** The listing has returned. @throws the first refusal that was not awaited */
  throwUnnoticed(): void {
    for (const { error } of this.#unnoticed) throw error
  }
}

/**
 * A rejection that reports when code attaches to it. `await`, `then()`, `catch()`, `finally()` and `Promise.all()` ask the
 * promise's class for its species first (ECMA-262, "Promise.prototype.then").
 */
function noticeable(error: unknown, onNoticed: () => void): Promise<never> {
  class Refused extends Promise<never> {
    static override get [Symbol.species](): PromiseConstructor {
      onNoticed()
      return Promise
    }
  }
  const refused = new Refused((_, reject) => reject(error))
  // Handled as far as Node knows.
  refused.catch(() => {})
  return refused
}
