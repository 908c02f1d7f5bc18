/** A look at what a run would list. Rule: docs/behaviour/sync-backfills.md, "Samples". */

import { errorChain } from '../../calls/failure-class-rules.ts'
import { insideSync } from '../../calls/inside-sync.ts'
import { secretsIn } from '../../credentials/integration-secrets.ts'
import type { Framework } from '../../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { redactedErrorLine } from '../../framework/redacted-error.ts'
import { redactLikely, redactStart } from '../../framework/redaction.ts'
import { thrownTexts } from '../../framework/thrown.ts'
import { integrationHandle } from '../../integrations/handle.ts'
import { findIntegration } from '../../integrations/queries.ts'
import { hasIncrementalSync, hasScheduledSync, requireContract } from '../../providers/contracts.ts'
import type { SampledItem } from './sampling-session.ts'
import { SamplingSession } from './sampling-session.ts'

export type { SampledItem } from './sampling-session.ts'

const DEFAULT_LIMIT = 10
const MAX_LIMIT = 100
const MAX_ERROR_LENGTH = 1_000

export interface SampleOptions {
  /** 1 to 100, default 10. */
  readonly limit?: number
  readonly signal?: AbortSignal
  /**
   * Told before what the listing throws is thrown: the error and its causes in one line, without the secrets that the listing
   * has used. Not told of a failure before the listing, nor once the signal is aborted.
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
 * Lists a few items in this process: validated, and nothing is stored but the rows of the requests. The integration need
 * not be active.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, InvalidArgumentException; what the listing throws
 */
export async function sampleSync(
  framework: Framework,
  id: number,
  { limit = DEFAULT_LIMIT, signal, onListingFailed }: SampleOptions = {},
): Promise<SyncSample> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw new InvalidArgumentException('limit', `1 to ${MAX_LIMIT} is allowed, ${limit} was given`)
  signal?.throwIfAborted()
  const row = await findIntegration(framework.db, framework.tables, id)
  if (row === null) throw new IntegrationNotFound(id)
  const provider = requireContract(
    row.provider,
    framework.providers.get(row.provider),
    hasScheduledSync,
    'HasScheduledSync',
  )
  const session = new SamplingSession({
    integration: integrationHandle(framework, row),
    cursor: (row.syncCursor ?? null) as Json,
    listeners: framework.listeners,
    logger: framework.logger,
    reduce: (checkpoints) => provider.reduceCheckpoints(checkpoints),
    limit,
    models: framework.models,
  })
  const giveUp = () => session.stop(signal?.reason)
  signal?.addEventListener('abort', giveUp, { once: true })
  try {
    // As in a run: a wait for the provider's limit ends the listing, and so does the end of the sample.
    await insideSync({ signal: session.signal }, () =>
      session.until(async () =>
        hasIncrementalSync(provider)
          ? provider.syncIncremental(session.integration, session)
          : provider.sync(session.integration, session),
      ),
    )
  } catch (error) {
    // Who has gone away has not been failed.
    if (signal?.aborted !== true) {
      const secrets = secretsIn(session.integration)
      framework.logger.warn(
        {
          event: 'sync.sample_failed',
          integration: id,
          provider: row.provider,
          error: redactedErrorLine(error, secrets, MAX_ERROR_LENGTH),
        },
        'the listing of a sample failed',
      )
      onListingFailed?.(redactedCauses(error, secrets, MAX_ERROR_LENGTH))
    }
    throw error
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
  signal?.throwIfAborted()
  return { items: session.items, more: session.isStopped, duplicatesDropped: session.duplicatesDropped }
}

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
