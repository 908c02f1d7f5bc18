/** A look at what a run would list. Rule: docs/behaviour/sync-backfills.md, "Samples". */
import { IntegrationNotFound, InvalidArgumentException } from '../core/errors.ts'
import type { Json } from '../core/json.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import { hasIncrementalSync, hasScheduledSync, requireContract } from '../providers/provider.ts'
import { insideSync } from './inside-sync.ts'
import { integrationHandle } from './integration.ts'
import { secretsIn } from './integration-secrets.ts'
import { redactedCauses } from './redacted-causes.ts'
import { redactedErrorLine } from './redacted-error.ts'
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
