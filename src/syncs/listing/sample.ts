/** A look at what a run would list. Rule: docs/behaviour/sync-backfills.md, "Samples". */

import { setTimeout as sleep } from 'node:timers/promises'
import { errorChain } from '../../calls/failure-class-rules.ts'
import { insideSync } from '../../calls/inside-sync.ts'
import { secretsIn } from '../../credentials/integration-secrets.ts'
import type { Framework } from '../../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException, UnsupportedByProvider } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import type { Logger } from '../../framework/logger.ts'
import { errorLine, integrationLogger } from '../../framework/logger.ts'
import { redactedErrorLine } from '../../framework/redacted-error.ts'
import { redactLikely, redactStart } from '../../framework/redaction.ts'
import { thrownTexts } from '../../framework/thrown.ts'
import { integrationHandle } from '../../integrations/handle.ts'
import { requireIntegration } from '../../integrations/queries.ts'
import type { ExternalId } from '../../providers/integration.ts'
import type { SyncItemEvent } from '../../providers/provider-events.ts'
import { declaredStream, streamMeant, syncSource } from '../../providers/streams.ts'
import type { SyncSession } from '../../providers/sync-session.ts'
import { cursorOf } from '../cursor.ts'
import { findSyncRow } from '../sync-rows.ts'
import { warnOfListing } from './listed-item.ts'
import type { ListedItem } from './listing-queries.ts'
import type { SessionOptions } from './listing-session.ts'
import { StoringSession } from './listing-session.ts'
import { listWhole, overlapped } from './listing-try.ts'

const DEFAULT_LIMIT = 10
const MAX_LIMIT = 100
const MAX_ERROR_LENGTH = 1_000
/** Given to a listing that was asked to end, so that the rows of its requests are written. */
const LAST_WORDS_MS = 1_000

export interface SampledItem {
  readonly eventClass: string
  readonly externalId: string | null
  readonly checkpointValue: Json
  /** Of the payload as it would be stored. */
  readonly bytes: number
}

export interface SampleOptions {
  /** Needed where the provider has several. */
  readonly stream?: string | undefined
  /** 1 to 100, default 10. */
  readonly limit?: number
  readonly signal?: AbortSignal
  /**
   * Called before the listing's error is thrown, with the error and its causes in one line, without the secrets that the listing
   * has used. Not called for a failure before the listing, nor once the signal is aborted.
   */
  readonly onListingFailed?: (causes: string) => void
}

export interface SyncSample {
  readonly items: readonly SampledItem[]
  /** The listing was not over yet: it was stopped. */
  readonly more: boolean
  readonly duplicatesDropped: number
}

/**
 * Lists a few items in this process. They are validated, and only the rows of the requests are stored. The integration need
 * not be active.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, InvalidArgumentException; what the listing throws
 */
export async function sampleSync(
  framework: Framework,
  id: number,
  { stream, limit = DEFAULT_LIMIT, signal, onListingFailed }: SampleOptions = {},
): Promise<SyncSample> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw new InvalidArgumentException('limit', `1 to ${MAX_LIMIT} is allowed, ${limit} was given`)
  signal?.throwIfAborted()
  const { provider: key } = await requireIntegration(framework, id)
  const registered = framework.providers.get(key)
  const named = streamMeant(key, registered, stream)
  const provider = syncSource(registered, named)
  const row = await findSyncRow(framework.db, framework.tables, { integrationId: id, stream: named })
  if (row === null) throw new IntegrationNotFound(id)
  if (provider === null) throw new UnsupportedByProvider(key, 'HasScheduledSync')
  const logger = integrationLogger(framework, row)
  const session = new SamplingSession({
    integration: integrationHandle(framework, row),
    cursor: overlapped(cursorOf(row), registered, row),
    stream: named,
    model: declaredStream(registered, named)?.model,
    listeners: framework.listeners,
    logger,
    reduce: (checkpoints) => provider.reduceCheckpoints(checkpoints),
    limit,
    models: framework.models,
  })
  const giveUp = () => session.stop(signal?.reason)
  signal?.addEventListener('abort', giveUp, { once: true })
  try {
    // As in a run: a wait for the provider's limit ends the listing, and so does the end of the sample.
    const items = await insideSync({ signal: session.signal }, () =>
      session.listed(async () => listWhole(provider, session)),
    )
    signal?.throwIfAborted()
    return { items, more: session.isStopped, duplicatesDropped: session.duplicatesDropped }
  } catch (error) {
    // A caller that gave up is told no failure.
    if (signal?.aborted !== true) {
      const secrets = secretsIn(session.integration)
      logger.warn(
        { event: 'sync.sample_failed', error: redactedErrorLine(error, secrets, MAX_ERROR_LENGTH) },
        'the listing of a sample failed',
      )
      onListingFailed?.(redactedCauses(error, secrets, MAX_ERROR_LENGTH))
    }
    throw error
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}

type SamplingOptions = Pick<
  SessionOptions,
  'integration' | 'cursor' | 'stream' | 'model' | 'listeners' | 'logger' | 'reduce' | 'models'
> & {
  readonly limit: number
}

/** Judges each item as a run's session does, keeps the first ones, and stops the listing. */
class SamplingSession extends StoringSession {
  readonly #limit: number
  readonly #logger: Logger
  readonly #stop: AbortController
  readonly #stored: ListedItem[]
  #isOver = false

  constructor({ limit, logger, ...options }: SamplingOptions) {
    const stop = new AbortController()
    const stored: ListedItem[] = []
    super({
      ...options,
      // A sample has no log, and only what the provider and the refusals say is logged of it.
      syncLogId: 0,
      logger: SILENT,
      resume: null,
      signal: stop.signal,
      softCap: Number.POSITIVE_INFINITY,
      isWindow: false,
      store: async (items) => void stored.push(...items),
      onRefused: (error) =>
        logger.warn(
          { event: 'sync.item_refused', error: errorLine(error, 500) },
          'the sample refused what the listing handed in, as a run would',
        ),
    })
    this.#limit = limit
    this.#logger = logger
    this.#stop = stop
    this.#stored = stored
  }

  /** The listing was still under way when it was stopped. */
  get isStopped(): boolean {
    return this.signal.aborted
  }

  stop(reason?: unknown): void {
    this.#stop.abort(reason)
  }

  override warn(...given: Parameters<SyncSession['warn']>): void {
    warnOfListing(this.#logger, this, ...given)
  }

  override dispatch(
    event: SyncItemEvent<unknown>,
    checkpointValue: Json = null,
    externalId: ExternalId | null = null,
  ): Promise<void> {
    const { count } = this
    const dispatched = super.dispatch(event, checkpointValue, externalId)
    if (this.count === count || this.count < this.#limit) return dispatched
    // One item more than asked for: the listing would go on.
    if (this.count > this.#limit) {
      this.stop()
      return super.dispatch(event, checkpointValue, externalId)
    }
    // A listing without more items ends before the next turn of the event loop. One that asks its provider for more does
    // not, and is stopped before the answer is there.
    setImmediate(() => this.#isOver || this.stop())
    return dispatched
  }

  /**
   * Runs the listing until it ends or the sample is full. Then the listing is asked to end, and not awaited for long: a
   * provider may ignore the signal.
   *
   * @throws what the listing throws, unless it was stopped before; a refusal that was not noticed
   */
  async listed(list: () => Promise<void>): Promise<SampledItem[]> {
    const fault: { error?: unknown; isThere: boolean } = { isThere: false }
    const listing = list().catch((error: unknown) => {
      if (!this.isStopped) Object.assign(fault, { error, isThere: true })
    })
    const stopped = new Promise<void>((resolve) =>
      this.signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    await Promise.race([listing, stopped])
    this.#isOver = true
    if (this.isStopped) {
      const enough = new AbortController()
      await Promise.race([listing, sleep(LAST_WORDS_MS, undefined, { signal: enough.signal }).catch(() => {})])
      enough.abort()
    }
    if (fault.isThere) throw fault.error
    const rest = await this.close()
    return sampledItems([...this.#stored, ...rest]).slice(0, this.#limit)
  }
}

/** A newer copy of an item stands in the place of the older one. */
function sampledItems(listed: readonly ListedItem[]): SampledItem[] {
  const items: SampledItem[] = []
  for (const { eventClass, externalId, checkpoint, payload, isRepeat } of listed) {
    const checkpointValue = JSON.parse(checkpoint) as Json
    const item = { eventClass, externalId, checkpointValue, bytes: Buffer.byteLength(payload) }
    const isSame = (other: SampledItem) => other.eventClass === eventClass && other.externalId === externalId
    if (isRepeat) items[items.findIndex(isSame)] = item
    else items.push(item)
  }
  return items
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** Characters of an error and its causes that are read. */
const MAX_READ = 20_000

/**
 * An error and its causes as one line without secrets: `TypeError: fetch failed, by Error: connect
 * ECONNREFUSED 127.0.0.1:9`. Redacted before it is cut. Never throws, whatever was thrown.
 */
function redactedCauses(error: unknown, secrets: readonly string[], maxLength: number): string {
  const line = [...new Set(chainOf(error).map(lineOf))].join(', by ')
  return redactLikely(redactStart(line, secrets, MAX_READ))
    .replace(/\s*\n\s*/g, ' ')
    .slice(0, maxLength)
}

function chainOf(error: unknown): readonly unknown[] {
  try {
    const chain = errorChain(error)
    return chain.length === 0 ? [error] : chain
  } catch {
    // Its cause can't be read.
    return [error]
  }
}

function lineOf(link: unknown): string {
  const { name, message, code } = thrownTexts(link)
  // Of several addresses that were refused Node's AggregateError has no message, only their code.
  const text = message === '' ? code : message
  return [name, text].filter((part) => part !== null).join(': ')
}
