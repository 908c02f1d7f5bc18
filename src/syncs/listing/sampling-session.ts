/**
 * The session of a sample: judges each item as a run's does, keeps the first ones and stops the listing.
 *
 * Rule: docs/behaviour/sync-backfills.md, "Samples".
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Listeners } from '../../events/listeners.ts'
import { SyncSessionClosed } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import type { Logger } from '../../framework/logger.ts'
import { errorLine } from '../../framework/logger.ts'
import type { ExternalId, Integration } from '../../providers/integration.ts'
import type { SyncItemEvent, SyncItemEventClass } from '../../providers/provider-events.ts'
import type { SyncSession } from '../../providers/sync-session.ts'
import { isNewerCopy } from '../checkpoint-rules.ts'
import { bookmarkPosition, listedExternalId, listedItem, listedModel, warnOfListing } from './listed-item.ts'
import type { NewSyncItem } from './listing-queries.ts'
import { Refusals } from './refusals.ts'

/** Given to a listing that was asked to end, so that the rows of its requests are written. */
const LAST_WORDS_MS = 1_000

export interface SampledItem {
  readonly eventClass: string
  readonly externalId: string | null
  readonly checkpointValue: Json
  /** Of the payload as it would be stored. */
  readonly bytes: number
}

export interface SamplingOptions {
  readonly integration: Integration
  readonly cursor: Json
  readonly listeners: Listeners
  readonly logger: Logger
  /** The provider's: of two copies of an item it says which one is newer. */
  reduce(checkpoints: readonly Json[]): Json
  readonly limit: number
  /** Models that fullListing() may name. */
  readonly models: ReadonlyMap<string, unknown>
}

export class SamplingSession implements SyncSession {
  readonly integration: Integration
  /** A sample has no log. */
  readonly syncLogId = 0
  readonly signal: AbortSignal
  readonly items: SampledItem[] = []
  readonly #options: SamplingOptions
  readonly #stop = new AbortController()
  /** Places in `items` by class and external id. */
  readonly #seen = new Map<string, number>()
  readonly #refusals = new Refusals((error) => this.stop(error))
  #dropped = 0
  #closed = false

  constructor(options: SamplingOptions) {
    this.#options = options
    this.integration = options.integration
    this.signal = this.#stop.signal
  }

  cursor(): Json {
    return this.#options.cursor
  }

  resumeFrom(): Json {
    return null
  }

  get count(): number {
    return this.items.length
  }

  get isEmpty(): boolean {
    return this.items.length === 0
  }

  get duplicatesDropped(): number {
    return this.#dropped
  }

  /** The listing was still under way when it was stopped. */
  get isStopped(): boolean {
    return this.signal.aborted
  }

  has({ type }: SyncItemEventClass, externalId: ExternalId): boolean {
    const id = listedExternalId(externalId)
    return id !== null && this.#seen.has(keyOf(type, id))
  }

  dispatch(
    event: SyncItemEvent<unknown>,
    checkpointValue: Json = null,
    externalId: ExternalId | null = null,
  ): Promise<void> {
    return this.#handled(() => this.#take(listedItem(this.#options.listeners, event, checkpointValue, externalId)))
  }

  bookmark(position: Json): Promise<void> {
    return this.#handled(() => {
      bookmarkPosition(position)
    })
  }

  warn(...given: Parameters<SyncSession['warn']>): void {
    warnOfListing(this.#options.logger, this, ...given)
  }

  fullListing(internalType?: string): void {
    this.#mustBeOpen()
    listedModel(this.#options.models, internalType)
  }

  stop(reason?: unknown): void {
    this.#stop.abort(reason)
  }

  /**
   * Runs the listing until it ends or enough items are there. Then it is asked to end, and not waited for long: a provider
   * may pass over the signal.
   *
   * @throws what the listing throws, unless it was stopped before; what was refused without anybody's notice
   */
  async until(list: () => Promise<void>): Promise<void> {
    let fault: { readonly error: unknown } | null = null
    const listing = list().catch((error: unknown) => {
      if (!this.isStopped) fault = { error }
    })
    const stopped = new Promise<void>((resolve) =>
      this.signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    await Promise.race([listing, stopped])
    this.#closed = true
    if (this.isStopped) {
      const enough = new AbortController()
      await Promise.race([listing, sleep(LAST_WORDS_MS, undefined, { signal: enough.signal }).catch(() => {})])
      enough.abort()
    }
    if (fault !== null) throw (fault as { readonly error: unknown }).error
    this.#refusals.throwUnnoticed()
  }

  #take(item: NewSyncItem): void {
    const { eventClass, externalId } = item
    const key = externalId === null ? null : keyOf(eventClass, externalId)
    const checkpointValue = JSON.parse(item.checkpoint) as Json
    const sampled = { eventClass, externalId, checkpointValue, bytes: Buffer.byteLength(item.payload) }
    const place = key === null ? undefined : this.#seen.get(key)
    const kept = place === undefined ? undefined : this.items[place]
    if (place !== undefined && kept !== undefined) {
      this.#dropped += 1
      if (isNewerCopy(kept.checkpointValue, checkpointValue, this.#options.reduce)) this.items[place] = sampled
      return
    }
    // One more than asked for: the listing goes on.
    if (this.items.length === this.#options.limit) {
      this.stop()
      this.signal.throwIfAborted()
    }
    if (key !== null) this.#seen.set(key, this.items.length)
    this.items.push(sampled)
    // A listing that has nothing more to say ends before the next turn of the event loop; one that goes to its provider
    // for more does not, and is stopped before the answer is there.
    if (this.items.length === this.#options.limit) setImmediate(() => this.#closed || this.stop())
  }

  #mustBeOpen(): void {
    this.signal.throwIfAborted()
    if (this.#closed) throw new SyncSessionClosed()
  }

  #handled(work: () => void): Promise<void> {
    try {
      this.#mustBeOpen()
      work()
      return Promise.resolve()
    } catch (error) {
      if (!this.isStopped && !this.#closed) {
        this.#options.logger.warn(
          {
            event: 'sync.item_refused',
            integration: this.integration.id,
            provider: this.integration.provider,
            error: errorLine(error, 500),
          },
          'the sample refused what the listing handed in, as a run would',
        )
        return this.#refusals.refuse(error)
      }
      // Too late: a provider that does not await it must not bring the process down by its rejection.
      const refused = Promise.reject(error)
      refused.catch(() => {})
      return refused
    }
  }
}

function keyOf(eventClass: string, externalId: string): string {
  return `${eventClass}\u0000${externalId}`
}
