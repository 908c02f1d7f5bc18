/** Runs the listeners of one claimed sync item. A run's batches and a retry by hand both come through here. */

import { errorChain } from '../../calls/failure-class-rules.ts'
import { insideSync } from '../../calls/inside-sync.ts'
import type { SyncItemRow } from '../../db/schema/tables.ts'
import type { Arriving } from '../../echoes/arrivals.ts'
import { handleArrival } from '../../echoes/arrivals.ts'
import { handOverItem, targetOf } from '../../forwarding/hand-over.ts'
import type { Framework } from '../../framework/context.ts'
import { ItemTimedOut, isIntegrationsError, SyncListenerMustNotBeQueuedException } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { errorLine } from '../../framework/logger.ts'
import { asPartOf } from '../../framework/origin.ts'
import { redactedClassLine } from '../../framework/redacted-error.ts'
import { withTimeLimit } from '../../framework/waiting.ts'
import type { IntegrationContext } from '../../integrations/integration-contexts.ts'
import type { StoredPayload, SyncItemEventClass } from '../../providers/provider-events.ts'
import { withSyncItem } from '../../providers/sync-session.ts'
import type { ItemChange } from '../record-queries.ts'
import type { ItemRefusal, ItemSettlement } from './item-queries.ts'
import type { ItemOutcome, ItemPolicy, ItemStep } from './item-rules.ts'
import { askedSeconds, boundedOutcome, isLikelyFinal, nextStep } from './item-rules.ts'

const MAX_ERROR_LENGTH = 1_000
/** With a shorter deferral, or an unusable one, the item would be tried again and again without a pause. */
const LEAST_DEFERRAL_SECONDS = 1

export interface ItemRun {
  readonly row: SyncItemRow
  readonly settlement: ItemSettlement
  readonly step: ItemStep
  /** What the attempt ended with, without secrets; null on success, and where nothing is known. */
  readonly message: string | null
  /** As the listener was told. */
  readonly maxAttempts: number
  /** What the listener threw; undefined on success. */
  readonly error: unknown
  /** Secrets that the error may quote: all that the listener's handle has known. A later handle does not know older tokens. */
  readonly secrets: readonly string[]
}

/** The run, or the retry, that items run for. */
export interface ItemWork {
  /** Aborted when the worker stops or the run is cancelled: what waits then is put off. */
  readonly cancelled: AbortSignal
  /** Aborted a while later: listeners that still run are given up. */
  readonly enough: AbortSignal
  /** Of a retry by hand: which of its own attempts this is, from 1, and how many it has. Null: a run's. */
  readonly retry: { readonly attempt: number; readonly tries: number } | null
  /** The claim of a row that waits for its next attempt; null: no claim. */
  readonly waitsFor: string | null
  /** Null: its stream has no `skipUnchanged`, or it has no external id. */
  readonly change: ItemChange | null
  /** When the claim was answered, by this process' clock. */
  readonly claimedAt: Date
}

/**
 * One attempt of an item and what follows from it; never throws.
 *
 * @param row as claimed: its `attempts` and `claim` guard the settlement
 * @param integration read after the claim; null when it is gone
 */
export async function runSyncItem(
  framework: Framework,
  row: SyncItemRow,
  integration: IntegrationContext | null,
  work: ItemWork,
): Promise<ItemRun> {
  const { sync } = framework.config
  const startedAt = performance.now()
  const { clock } = framework
  // Up to the claim by the database's clock, which dated both, then by this process': they may differ.
  const ageSeconds = (): number =>
    (row.updatedAt.getTime() - row.createdAt.getTime() + clock.now().getTime() - work.claimedAt.getTime()) / 1_000
  const endsAt = startedAt + sync.item_timeout * 1_000
  const policy: ItemPolicy = {
    tries: work.retry?.tries ?? sync.item_tries,
    backoffSeconds: sync.item_backoff,
    // What an operator asks for is not too late.
    retryWindowSeconds: work.retry === null ? sync.item_retry_window : Number.POSITIVE_INFINITY,
  }
  const attempt = work.retry?.attempt ?? row.attempts
  const maxAttempts = row.attempts - attempt + policy.tries
  let readSecrets: () => readonly string[] = () => []
  let secrets: readonly string[] = []
  let error: unknown
  let outcome: ItemOutcome = { kind: 'succeeded' }
  let isOwn: boolean | null = null
  try {
    if (integration === null) throw new Error('the integration is gone')
    integration.secrets()
    // Asked again after the listeners: they may have brought a new token.
    readSecrets = () => integration.secrets()
    const { handle } = integration
    const { eventClass, payload } = readPayloadOf(framework, row)
    await withTimeLimit(
      sync.item_timeout,
      () => new ItemTimedOut(sync.item_timeout),
      (signal) => {
        const current = {
          attempt: row.attempts,
          maxAttempts,
          syncItemId: row.id,
          integrationId: row.integrationId,
          syncLogId: row.syncLogId,
          externalId: row.externalId,
          isLikelyFinalAttempt: isLikelyFinal(attempt, ageSeconds(), policy),
          signal,
        }
        const inside = { signal: work.cancelled, stream: row.stream, item: { db: framework.db, current }, endsAt }
        const arriving: Arriving = {
          framework,
          integration: integration.row,
          provider: framework.providers.find(integration.row.provider),
          kind: 'item',
          id: row.id,
          judged: row.isOwn,
          isFirst: row.attempts === 1,
          told: () => ({ kind: 'item', eventClass: row.eventClass, payload: payload as Json }),
          signal,
        }
        const tell = () =>
          handleArrival(arriving, (verdict) => {
            isOwn = verdict
            // Made here: it knows whether it is own.
            const event = Object.assign(new eventClass(handle, payload as never), work.change)
            const target = targetOf(framework, 'items', handle)
            if (target !== null)
              return handOverItem(framework, target, row, event, {
                integration: handle,
                signal,
                isOwn: verdict === true,
              })
            return insideSync(inside, () => framework.listeners.deliver(event))
          })
        return asPartOf(framework.tables, 'item', row.id, () => withSyncItem(current, tell))
      },
      work.enough,
    )
  } catch (thrown) {
    error = thrown
    secrets = readSecrets()
    const isGivenUp = work.enough.aborted && thrown === work.enough.reason
    outcome = isGivenUp ? { kind: 'interrupted' } : boundedOutcome(thrownOutcome(thrown, secrets), row.putOff)
  }
  const step = nextStep(outcome, attempt, ageSeconds(), policy)
  const durationMs = Math.round(performance.now() - startedAt)
  const message = 'message' in outcome ? outcome.message : null
  return {
    row,
    step,
    message,
    maxAttempts,
    error,
    secrets,
    settlement: {
      ...settlementOf(row, step, work.waitsFor, message),
      isOwn,
      uncounted: outcome.kind !== 'succeeded' && outcome.kind !== 'failed',
      failure: outcome.kind === 'failed' ? { message: outcome.message, maxAttempts, durationMs } : null,
    },
  }
}

/** An item that is given up without another attempt: its worker was lost too often. */
export function givenUp(row: SyncItemRow, reason: string): ItemRun {
  const step: ItemStep = { kind: 'fail', reason }
  return {
    row,
    step,
    message: reason,
    maxAttempts: row.attempts,
    error: new Error(reason),
    secrets: [],
    settlement: { ...settlementOf(row, step, null, reason), isOwn: null, uncounted: false, failure: null },
  }
}

function settlementOf(
  row: SyncItemRow,
  step: ItemStep,
  waitsFor: string | null,
  message: string | null,
): Omit<ItemSettlement, 'isOwn' | 'uncounted' | 'failure'> {
  return {
    id: row.id,
    attempts: row.attempts,
    claim: row.claim ?? '',
    status: step.kind === 'succeed' ? 'success' : step.kind === 'fail' ? 'failed' : 'waiting',
    waitsFor: step.kind === 'wait' ? waitsFor : null,
    error: step.kind === 'fail' ? step.reason : null,
    wait: step.kind === 'wait' ? { seconds: step.seconds, error: message, isPutOff: step.because === 'not yet' } : null,
  }
}

/** The classes that have a queued listener: a claim refuses their items. */
export function refusalsOf({ listeners }: Framework): ItemRefusal[] {
  return listeners.queuedItemTypes().map((eventClass) => ({
    eventClass,
    error: redactedClassLine(new SyncListenerMustNotBeQueuedException(eventClass), [], MAX_ERROR_LENGTH),
  }))
}

/** A stored payload that can never be read: the item ends at once. */
class PayloadMismatch extends Error {
  override readonly name = 'PayloadMismatch'
}

function readPayloadOf(
  { listeners }: Framework,
  row: SyncItemRow,
): { readonly eventClass: SyncItemEventClass; readonly payload: unknown } {
  const eventClass = listeners.itemClass(row.eventClass)
  // A newer release may have listed it: another attempt, perhaps on another worker, heals that.
  if (eventClass === null) throw new Error(`no event class "${row.eventClass}" is registered`)
  // One that a lost worker of another release had claimed: the claim refuses all others.
  if (listeners.hasQueuedItemListener(eventClass)) throw new SyncListenerMustNotBeQueuedException(row.eventClass)
  return { eventClass, payload: readPayload(eventClass, row.payload) }
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

function thrownOutcome(error: unknown, secrets: readonly string[]): ItemOutcome {
  const message = redactedClassLine(error, secrets, MAX_ERROR_LENGTH)
  try {
    return judged(error, message)
  } catch {
    // A getter of its own threw, so it asks for nothing that can be read.
    return { kind: 'failed', message }
  }
}

/** Codes of errors that say what becomes of the item. */
const VERDICTS = ['rate_limit_exceeded', 'non_retryable', 'not_yet'] as const

/** @throws what the error's own getters throw */
function judged(error: unknown, message: string): ItemOutcome {
  const chain = errorChain(error)
  // The outermost says what is meant: it may have been thrown because of another.
  const verdict = chain.find((link) => VERDICTS.some((code) => isIntegrationsError(link, code)))
  if (verdict !== undefined) {
    if (isIntegrationsError(verdict, 'non_retryable')) return { kind: 'failed', message, isFinal: true }
    const retryAfterSeconds = Math.max(askedSeconds(verdict), LEAST_DEFERRAL_SECONDS)
    return { kind: isIntegrationsError(verdict, 'not_yet') ? 'not yet' : 'deferred', message, retryAfterSeconds }
  }
  if (error instanceof PayloadMismatch) return { kind: 'failed', message, isFinal: true }
  // Not counted, as where the claim finds it.
  if (isIntegrationsError(error, 'sync_listener_must_not_be_queued')) return { kind: 'refused', message }
  // Before the cooldown is over the same call would meet the same open circuit.
  const open = chain.find((link) => isIntegrationsError(link, 'circuit_open'))
  return { kind: 'failed', message, ...(open === undefined ? {} : { minimumWaitSeconds: askedSeconds(open) }) }
}
