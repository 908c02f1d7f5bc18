/**
 * The session behind a provider's `sync()`: checks each item at once and stores them in chunks.
 *
 * Rule: docs/behaviour/syncs.md, "The session".
 */
import { InvalidArgumentException, SyncSessionClosed } from '../core/errors.ts'
import type { Json } from '../core/json.ts'
import { isJson, withoutNul } from '../core/json.ts'
import type { Logger } from '../core/logger.ts'
import type { NewSyncItem } from '../db/queries/sync-items.ts'
import type { Listeners } from '../events/listeners.ts'
import type { SyncItemEvent, SyncItemEventClass } from '../providers/events.ts'
import type { ExternalId, Integration } from '../providers/integration.ts'
import type { SyncSession } from '../providers/sync-session.ts'

/** The item that fills a chunk waits for its insert: a fast listing never outruns the database. */
const CHUNK_ROWS = 500
const MAX_PAYLOAD_BYTES = 1_048_576
const MAX_EXTERNAL_ID_LENGTH = 500

export interface SessionOptions {
  readonly integration: Integration
  readonly syncLogId: number
  readonly cursor: Json
  readonly signal: AbortSignal
  readonly listeners: Listeners
  readonly logger: Logger
  /** `sync.max_items_per_batch`: one warning beyond it, the run goes on. */
  readonly softCap: number
  store(items: readonly NewSyncItem[]): Promise<void>
}

export class StoringSession implements SyncSession {
  readonly integration: Integration
  readonly syncLogId: number
  readonly signal: AbortSignal
  readonly #options: SessionOptions
  #buffer: NewSyncItem[] = []
  #seen = new Set<string>()
  #count = 0
  #dropped = 0
  #closed = false
  #writing: Promise<void> = Promise.resolve()

  constructor(options: SessionOptions) {
    this.#options = options
    this.integration = options.integration
    this.syncLogId = options.syncLogId
    this.signal = options.signal
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

  async dispatch(
    event: SyncItemEvent<unknown>,
    checkpointValue: Json = null,
    externalId: ExternalId | null = null,
  ): Promise<void> {
    if (this.#closed) throw new SyncSessionClosed()
    this.signal.throwIfAborted()
    const item = this.#checked(event, checkpointValue, externalId)
    if (this.#isRepeat(item)) return
    this.#count += 1
    if (this.#count === this.#options.softCap + 1)
      this.#options.logger.warn(
        { integration: this.integration.id, run: this.syncLogId, cap: this.#options.softCap },
        'the run has more items than sync.max_items_per_batch; it goes on',
      )
    this.#buffer.push(item)
    if (this.#buffer.length >= CHUNK_ROWS) await this.#flush()
  }

  /** Stores what is left. Later calls of `dispatch()` throw. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#flush()
  }

  /** Stores no more, and waits for what is being stored: nothing of a listing that failed may land after its next try began. */
  async abandon(): Promise<void> {
    this.#closed = true
    this.#buffer = []
    await this.#writing.catch(() => {})
  }

  #flush(): Promise<void> {
    const chunk = this.#buffer
    this.#buffer = []
    // One after the other, so that un-awaited dispatches keep their order too.
    this.#writing = this.#writing.then(() => this.#options.store(chunk))
    // close() reports it; this only keeps a rejection that comes before from counting as unhandled.
    this.#writing.catch(() => {})
    return this.#writing
  }

  #checked(event: SyncItemEvent<unknown>, checkpointValue: Json, externalId: ExternalId | null): NewSyncItem {
    const eventClass = (event as object | null | undefined)?.constructor as SyncItemEventClass | undefined
    if (typeof eventClass?.type !== 'string' || this.#options.listeners.itemClass(eventClass.type) !== eventClass)
      throw new InvalidArgumentException(
        'event',
        `${eventClass?.name ?? 'it'} is not registered: name it in the provider's syncItemEvents(), or listen to it with integrations.on()`,
      )
    if (!isJson(checkpointValue))
      throw new InvalidArgumentException('checkpointValue', 'a JSON value is allowed; give dates as ISO 8601 text')
    const data = jsonOf(event.payload)
    const bytes = Buffer.byteLength(JSON.stringify(data))
    if (bytes > MAX_PAYLOAD_BYTES)
      throw new InvalidArgumentException(
        'payload',
        `at most ${MAX_PAYLOAD_BYTES} bytes are allowed, ${bytes} were given`,
      )
    const parsed = eventClass.schema?.safeParse(data)
    if (parsed?.success === false)
      throw new InvalidArgumentException(
        'payload',
        `it does not fit ${eventClass.type}: ${parsed.error.issues.map((issue) => `${issue.path.map(String).join('.') || '(root)'}: ${issue.message}`).join('; ')}`,
      )
    return {
      eventClass: eventClass.type,
      externalId: checkedExternalId(externalId),
      checkpointValue: withoutNul(checkpointValue),
      payload: { v: eventClass.version, data: withoutNul(data) },
    }
  }

  #isRepeat(item: NewSyncItem): boolean {
    if (item.externalId === null) return false
    const key = `${item.eventClass}\u0000${item.externalId}`
    if (!this.#seen.has(key)) {
      this.#seen.add(key)
      return false
    }
    this.#dropped += 1
    this.#options.logger.warn(
      { integration: this.integration.id, run: this.syncLogId, external_id: item.externalId },
      'an item was listed twice in this run; the first one is kept',
    )
    return true
  }
}

/** Dates become ISO text, undefined members go: what JSON makes of it. */
function jsonOf(payload: unknown): Json {
  let text: string | undefined
  try {
    text = JSON.stringify(payload)
  } catch {
    text = undefined
  }
  if (text === undefined) throw new InvalidArgumentException('payload', 'a JSON value is allowed')
  return JSON.parse(text) as Json
}

function checkedExternalId(externalId: ExternalId | null): string | null {
  if (externalId === null || externalId === '') return null
  if (typeof externalId === 'number' && !Number.isSafeInteger(externalId))
    throw new InvalidArgumentException('externalId', `text or a whole number is allowed, ${externalId} was given`)
  const text = String(externalId)
  const length = [...text].length
  if (length > MAX_EXTERNAL_ID_LENGTH || text.includes('\u0000'))
    throw new InvalidArgumentException(
      'externalId',
      `at most ${MAX_EXTERNAL_ID_LENGTH} characters without U+0000 are allowed, ${length} were given`,
    )
  return text
}
