/** Runs the listeners of one claimed sync item. A run's batches and a retry by hand both come through here. */
import { ItemTimedOut, isIntegrationsError, SyncListenerMustNotBeQueuedException } from '../core/errors.ts'
import { errorChain } from '../core/failure-class.ts'
import type { Json } from '../core/json.ts'
import { errorLine } from '../core/logger.ts'
import { secretsOf } from '../core/redaction.ts'
import type { ItemOutcome, ItemStep } from '../core/sync-item.ts'
import { nextStep } from '../core/sync-item.ts'
import type { ItemSettlement } from '../db/queries/sync-items.ts'
import type { IntegrationRow, SyncItemRow } from '../db/schema/tables.ts'
import type { SyncItemRecord } from '../events/events.ts'
import type { Framework } from '../framework.ts'
import type { StoredPayload, SyncItemEventClass } from '../providers/events.ts'
import type { Integration } from '../providers/integration.ts'
import { insideSync } from './inside-sync.ts'
import { integrationHandle } from './integration.ts'
import { redactedErrorLine } from './redacted-error.ts'
import { withTimeLimit } from './time-limit.ts'

const MAX_ERROR_LENGTH = 1_000

export interface ItemRun {
  readonly row: SyncItemRow
  /** Null when it is gone. */
  readonly integration: Integration | null
  readonly settlement: ItemSettlement
  readonly step: ItemStep
  /** What the listener threw; undefined on success. */
  readonly error: unknown
}

/**
 * One attempt of an item and what follows from it; never throws.
 *
 * @param row as claimed: the settlement carries its `attempts` and `claim`, by which it is guarded
 * @param integration read after the claim; null when it is gone
 * @param signal aborted when the worker stops: what waits then is put off
 */
export async function runSyncItem(
  framework: Framework,
  row: SyncItemRow,
  integration: IntegrationRow | null,
  signal: AbortSignal,
): Promise<ItemRun> {
  const { sync } = framework.config
  const startedAt = performance.now()
  let secrets: string[] = []
  let error: unknown
  let handle: Integration | null = null
  let outcome: ItemOutcome = { kind: 'succeeded' }
  try {
    if (integration === null) throw new Error('the integration is gone')
    handle = integrationHandle(framework, integration)
    secrets = secretsOf(framework.encryption.decrypt(integration.id, integration.credentials))
    const eventClass = framework.listeners.itemClass(row.eventClass)
    // A newer release may have listed it: another attempt, perhaps on another worker, heals that.
    if (eventClass === null) throw new Error(`no event class "${row.eventClass}" is registered`)
    if (framework.listeners.hasQueuedItemListener(eventClass))
      throw new SyncListenerMustNotBeQueuedException(row.eventClass)
    const event = new eventClass(handle, readPayload(eventClass, row.payload) as never)
    await withTimeLimit(
      sync.item_timeout,
      () => new ItemTimedOut(sync.item_timeout),
      () => insideSync({ signal }, () => framework.listeners.deliver(event)),
    )
  } catch (thrown) {
    error = thrown
    outcome = outcomeOf(thrown, secrets)
  }
  const ageSeconds = (framework.clock.now().getTime() - row.createdAt.getTime()) / 1_000
  const step = nextStep(outcome, row.attempts, ageSeconds, {
    tries: sync.item_tries,
    backoffSeconds: sync.item_backoff,
    retryWindowSeconds: sync.item_retry_window,
  })
  return {
    row,
    integration: handle,
    step,
    error,
    settlement: {
      id: row.id,
      attempts: row.attempts,
      claim: row.claim ?? '',
      status: step.kind === 'succeed' ? 'success' : step.kind === 'fail' ? 'failed' : 'waiting',
      uncounted: outcome.kind === 'deferred' || outcome.kind === 'refused',
      error: step.kind === 'fail' ? step.reason : null,
      failure:
        outcome.kind === 'failed'
          ? {
              message: outcome.message,
              maxAttempts: sync.item_tries,
              durationMs: Math.round(performance.now() - startedAt),
            }
          : null,
    },
  }
}

export function itemRecord(row: SyncItemRow, error: string | null): SyncItemRecord {
  return {
    id: row.id,
    integrationId: row.integrationId,
    syncLogId: row.syncLogId,
    eventClass: row.eventClass,
    externalId: row.externalId,
    checkpointValue: (row.checkpointValue ?? null) as Json,
    attempts: row.attempts,
    error,
  }
}

/** A stored payload that can never be read: the item ends at once. */
class PayloadMismatch extends Error {
  override readonly name = 'PayloadMismatch'
}

function readPayload(eventClass: SyncItemEventClass, stored: unknown): unknown {
  const { v, data } = stored as StoredPayload
  // Written by a newer release: an ordinary failed attempt, a newer worker will read it.
  if (v > eventClass.version) throw new Error(`payload version ${v} is newer than ${eventClass.version}`)
  const current = v < eventClass.version ? upgraded(eventClass, data, v) : data
  const parsed = eventClass.schema?.safeParse(current)
  if (parsed === undefined) return current
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map((issue) => `${issue.path.map(String).join('.') || '(root)'}: ${issue.message}`)
  throw new PayloadMismatch(`the stored payload does not fit ${eventClass.type}: ${issues.join('; ')}`)
}

function upgraded(eventClass: SyncItemEventClass, data: Json, from: number): unknown {
  if (eventClass.upgrade === undefined)
    throw new PayloadMismatch(`payload version ${from} of ${eventClass.type} has no upgrade() to ${eventClass.version}`)
  try {
    return eventClass.upgrade(data, from)
  } catch (error) {
    throw new PayloadMismatch(`upgrade() of ${eventClass.type} from version ${from} threw ${errorLine(error, 500)}`)
  }
}

function outcomeOf(error: unknown, secrets: readonly string[]): ItemOutcome {
  const message = redactedErrorLine(error, secrets, MAX_ERROR_LENGTH)
  const limited = errorChain(error).find((link) => isIntegrationsError(link, 'rate_limit_exceeded'))
  if (limited !== undefined)
    return {
      kind: 'deferred',
      message,
      retryAfterSeconds: (limited as unknown as { retryAfterSeconds: number }).retryAfterSeconds,
    }
  if (error instanceof PayloadMismatch || isIntegrationsError(error, 'sync_listener_must_not_be_queued'))
    return { kind: 'refused', message }
  return { kind: 'failed', message }
}
