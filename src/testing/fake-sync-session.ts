/**
 * A session that stores nothing, to see what a provider's `sync()` hands in. The rules are those of a run: it is the same
 * class, with an array for a table.
 */
import { AssertionError } from 'node:assert'
import { isDeepStrictEqual } from 'node:util'
import { Listeners } from '../events/listeners.ts'
import type { Json } from '../framework/json.ts'
import type { Logger } from '../framework/logger.ts'
import type { ExternalId, Integration } from '../providers/integration.ts'
import type { SyncItemEvent, SyncItemEventClass } from '../providers/provider-events.ts'
import { reduceCheckpointsByMax } from '../syncs/checkpoint-rules.ts'
import type { Bookmark } from '../syncs/listing/listing-session.ts'
import { StoringSession } from '../syncs/listing/listing-session.ts'

/** `sync.max_items_per_batch`, its default. */
const SOFT_CAP = 10_000
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} }

export interface FakeSyncSessionOptions {
  /** Default: one that can be named but not worked with. `kit.syncSession()` gives a session of a real one. */
  readonly integration?: Integration
  /** The item classes that count as registered. Default: any class with a `type`. */
  readonly itemEvents?: readonly SyncItemEventClass[]
  /** The stream that lists. Default: a provider's one `sync()`. */
  readonly stream?: string | undefined
  /** The model that the stream declares: what `fullListing()` speaks for unless it names one. */
  readonly model?: string | undefined
  /** The registered models that `fullListing()` may name, by name. Default: any name. */
  readonly models?: ReadonlyMap<string, unknown>
  readonly signal?: AbortSignal
  /** A bookmark that an earlier try left: what `resumeFrom()` gives. Default null. */
  readonly resumeFrom?: Json
  /** The provider's: of two copies of an item it says which is newer. Default `reduceCheckpointsByMax`. */
  readonly reduceCheckpoints?: (checkpoints: readonly Json[]) => Json
  readonly listeners?: Listeners
  readonly logger?: Logger
}

/** An item that the session took. */
export interface DispatchedItem {
  readonly event: SyncItemEvent<unknown>
  readonly checkpointValue: Json
  readonly externalId: ExternalId | null
}

/** What a try of a listing leaves to the next one. */
interface Kept {
  readonly bookmark: Bookmark
  readonly items: readonly DispatchedItem[]
}

/** By the options of the next try's session. */
const KEPT = new WeakMap<FakeSyncSessionOptions, Kept>()

export class FakeSyncSession extends StoringSession {
  readonly #items: DispatchedItem[] = []
  readonly #dropped: DispatchedItem[] = []
  readonly #bookmarks: Bookmark[] = []
  readonly #options: FakeSyncSessionOptions
  readonly #kept: Kept | null
  readonly #listeners: Listeners
  #takesAnyClass: boolean

  constructor(cursor: Json = null, options: FakeSyncSessionOptions = {}) {
    const kept = KEPT.get(options) ?? null
    const { integration = detachedIntegration(), itemEvents, signal = new AbortController().signal } = options
    const { logger = SILENT, listeners = new Listeners(logger), resumeFrom = null } = options
    const { reduceCheckpoints: reduce = reduceCheckpointsByMax } = options
    for (const eventClass of itemEvents ?? []) listeners.registerItemClass(eventClass)
    const given = { position: resumeFrom, count: 0, duplicates: 0, fullListing: null }
    super({
      integration,
      stream: options.stream ?? null,
      model: options.model,
      syncLogId: 0,
      cursor,
      signal,
      listeners,
      logger,
      reduce,
      resume: kept?.bookmark ?? (resumeFrom === null ? null : given),
      softCap: SOFT_CAP,
      isWindow: false,
      models: options.models ?? null,
      store: async (_items, bookmark) => {
        if (bookmark !== null) this.#bookmarks.push(bookmark)
      },
    })
    this.#options = options
    this.#kept = kept
    this.#listeners = listeners
    this.#takesAnyClass = itemEvents === undefined && options.listeners === undefined
    for (const item of kept?.items ?? []) {
      this.#items.push(item)
      this.know(typeOf(item), item.externalId, JSON.stringify(item.checkpointValue))
    }
  }

  /**
   * The session of the next try, once this one was cut off, as by a rate limit: it has the items up to the last bookmark, and
   * its `resumeFrom()` gives that bookmark.
   */
  async nextTry(): Promise<FakeSyncSession> {
    await this.abandon()
    const bookmark = this.#bookmarks.at(-1)
    const kept = bookmark === undefined ? this.#kept : { bookmark, items: this.#items.slice(0, bookmark.count) }
    const options = { ...this.#options, listeners: this.#listeners }
    if (kept !== null) KEPT.set(options, kept)
    const next = new FakeSyncSession(this.cursor(), options)
    next.#takesAnyClass = this.#takesAnyClass
    return next
  }

  /** What was handed in, in order; of an item that was handed in twice the newer copy. */
  get items(): readonly DispatchedItem[] {
    return this.#items
  }

  /** Copies of these items that were not kept. */
  get dropped(): readonly DispatchedItem[] {
    return this.#dropped
  }

  override dispatch(
    event: SyncItemEvent<unknown>,
    checkpointValue: Json = null,
    externalId: ExternalId | null = null,
  ): Promise<void> {
    if (this.#takesAnyClass) this.#register(event)
    const { count, duplicatesReplacing: replacing, duplicatesDropped: dropped } = this
    // It judges before it first waits, so that the counts tell what has become of the item.
    const dispatched = super.dispatch(event, checkpointValue, externalId)
    const item = { event, checkpointValue, externalId }
    if (this.count > count) this.#items.push(item)
    else if (this.duplicatesReplacing > replacing)
      this.#dropped.push(...this.#items.splice(this.#placeOf(item), 1, item))
    else if (this.duplicatesDropped > dropped) this.#dropped.push(item)
    return dispatched
  }

  #placeOf(item: DispatchedItem): number {
    const isSame = (other: DispatchedItem) =>
      typeOf(other) === typeOf(item) && String(other.externalId) === String(item.externalId)
    return this.#items.findIndex(isSame)
  }

  /** What was given to `bookmark()`, in order. */
  get bookmarks(): readonly Json[] {
    return this.#bookmarks.map(({ position }) => position)
  }

  /** An item of this class was handed in, and, given a predicate, one for which it holds. */
  assertDispatched<Event extends SyncItemEvent<unknown>>(
    eventClass: SyncItemEventClass<Event>,
    predicate: (event: Event, item: DispatchedItem) => boolean = () => true,
  ): void {
    const ofClass = this.#items.filter(({ event }) => event instanceof eventClass)
    if (ofClass.some((item) => predicate(item.event as Event, item))) return
    throw new AssertionError({
      message:
        ofClass.length === 0
          ? `No ${eventClass.type} was dispatched; dispatched: ${this.#types().join(', ') || 'nothing'}`
          : `${ofClass.length} of ${eventClass.type} were dispatched, but the predicate holds for none`,
      actual: ofClass.length === 0 ? this.#types() : ofClass.map(({ event }) => event.payload),
      expected: [eventClass.type],
      operator: 'assertDispatched',
      stackStartFn: this.assertDispatched,
    })
  }

  assertDispatchedCount(count: number, eventClass?: SyncItemEventClass): void {
    const actual = this.#items.filter(({ event }) => eventClass === undefined || event instanceof eventClass).length
    if (actual !== count)
      throw new AssertionError({
        message: `${actual} items${eventClass === undefined ? '' : ` of ${eventClass.type}`} were dispatched, expected ${count}`,
        actual,
        expected: count,
        operator: 'assertDispatchedCount',
        stackStartFn: this.assertDispatchedCount,
      })
  }

  assertNothingDispatched(): void {
    if (this.#items.length > 0)
      throw new AssertionError({
        message: `${this.#items.length} items were dispatched, expected none`,
        actual: this.#types(),
        expected: [],
        operator: 'assertNothingDispatched',
        stackStartFn: this.assertNothingDispatched,
      })
  }

  /** The checkpoints of all items, in order. */
  assertCheckpoints(expected: readonly Json[]): void {
    const actual = this.#items.map(({ checkpointValue }) => checkpointValue)
    if (!isDeepStrictEqual(actual, expected))
      throw new AssertionError({
        message: 'The checkpoints of the dispatched items differ from those expected',
        actual,
        expected,
        operator: 'assertCheckpoints',
        stackStartFn: this.assertCheckpoints,
      })
  }

  /** What was given to `bookmark()`, in order. */
  assertBookmarks(expected: readonly Json[]): void {
    if (!isDeepStrictEqual(this.bookmarks, expected))
      throw new AssertionError({
        message: 'The bookmarks differ from those expected',
        actual: this.bookmarks,
        expected,
        operator: 'assertBookmarks',
        stackStartFn: this.assertBookmarks,
      })
  }

  /** `fullListing()` was called, for this model; without one, for all that is mapped. */
  assertFullListing(internalType: string | null = null): void {
    const actual = this.fullListingOf
    if (actual === null || actual.internalType !== internalType)
      throw new AssertionError({
        message: actual === null ? 'fullListing() was not called' : 'fullListing() was called for something else',
        actual,
        expected: { internalType },
        operator: 'assertFullListing',
        stackStartFn: this.assertFullListing,
      })
  }

  #types(): string[] {
    return this.#items.map(typeOf)
  }

  #register(event: unknown): void {
    const eventClass = (event as object | null | undefined)?.constructor as SyncItemEventClass | undefined
    if (typeof eventClass?.type === 'string') this.#listeners.registerItemClass(eventClass)
  }
}

function typeOf({ event }: DispatchedItem): string {
  return (event.constructor as SyncItemEventClass).type
}

/** What can be read of an integration without a row behind it. */
const FIELDS = {
  id: 0,
  provider: 'detached',
  name: 'of a FakeSyncSession',
  metadata: {},
  owner: null,
  ownerType: null,
  ownerId: null,
  isActive: true,
  switchedOffAt: null,
  healthStatus: 'healthy',
  consecutiveFailures: 0,
  lastErrorAt: null,
  anomalyAlertedAt: null,
  syncIntervalMinutes: null,
  syncCursor: null,
  lastSyncedAt: null,
  nextSyncAt: null,
  consecutiveSyncFailures: 0,
  syncStaleAlertedAt: null,
  circuitOverride: null,
  circuitOverrideUntil: null,
  rateLimitOverride: null,
  rateLimitOverrideUntil: null,
  createdAt: new Date(0),
  updatedAt: new Date(0),
  now: () => new Date(),
} as const

/** Has a name and no row: whatever needs one says where to get it. */
function detachedIntegration(): Integration {
  return new Proxy(FIELDS as unknown as Integration, {
    get(fields, name, receiver) {
      if (typeof name === 'symbol' || name in fields) return Reflect.get(fields, name, receiver)
      if (name === 'toJSON') return () => ({ id: 0, provider: FIELDS.provider, name: FIELDS.name })
      // An await or a print asks for these.
      if (name === 'then' || name === 'nodeType' || name === 'asymmetricMatch') return undefined
      throw new TypeError(
        `integration.${name} needs an integration with a row: create one with createTestIntegrations(), then use kit.syncSession(integration)`,
      )
    },
  })
}
