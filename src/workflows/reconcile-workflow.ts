import {
  ActivityFailure,
  continueAsNew,
  isCancellation,
  log,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { ReconcileWebhooksInput, ReconcileWebhooksResult } from '../webhooks/webhook-jobs.ts'
import { MAX_REASONS } from '../webhooks/webhook-jobs.ts'
import { repeatable, step } from './activity-options.ts'
import { readably } from './readable-failure.ts'
import { showing } from './temporal-ui.ts'

/** Integrations whose providers are asked at the same time. */
const LANES = 4

const { listReconcilable } = proxyActivities<Activities>(step)
const { reconcileIntegration } = proxyActivities<Activities>(repeatable)

/** Carried over when the workflow goes on in a new history. */
export interface ReconciliationState {
  readonly waiting: readonly number[]
  readonly result: ReconcileWebhooksResult
}

/**
 * Asks providers for deliveries that never came, and stores them.
 *
 * Durable promise: the provider of each integration that supports it is asked, whatever happens to the others. Where a
 * listing fails, the next run asks again from the end of the last success. Its id is the overlap lock; continue-as-new
 * bounds its history.
 */
export async function reconcileWebhooks(
  input: ReconcileWebhooksInput,
  carried?: ReconciliationState,
): Promise<ReconcileWebhooksResult> {
  const listed = carried?.waiting ?? (await readably(() => listReconcilable(input))).integrationIds
  const waiting = [...listed]
  // A history of an earlier release carries a result without `skipped`.
  let result: ReconcileWebhooksResult = { ...NOTHING, ...carried?.result }

  const tell = (): void =>
    showing('Asking providers', {
      'Still to ask': waiting.length,
      Asked: result.integrations,
      'Could not be asked': result.failed,
      'Names no webhook to list': result.skipped,
      Stored: result.inserted,
    })
  const lane = async (): Promise<void> => {
    while (!workflowInfo().continueAsNewSuggested) {
      const integrationId = waiting.shift()
      if (integrationId === undefined) return
      tell()
      const one = await reconciled(input, integrationId)
      result = added(result, one)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  if (waiting.length > 0) await continueAsNew<typeof reconcileWebhooks>(input, { waiting, result })
  return result
}

async function reconciled(
  { since, dryRun }: ReconcileWebhooksInput,
  integrationId: number,
): Promise<ReconcileWebhooksResult> {
  const asked = {
    integrationId,
    ...(since === undefined ? {} : { since }),
    ...(dryRun === undefined ? {} : { dryRun }),
  }
  try {
    const { seen, known, inserted, tooLarge, capped, skipped } = await reconcileIntegration.executeWithOptions(
      { ...repeatable, summary: `integration ${integrationId}` },
      [asked],
    )
    if (skipped !== undefined)
      return { ...NOTHING, integrations: 1, skipped: 1, reasons: [`integration ${integrationId}: ${skipped}`] }
    return { ...NOTHING, integrations: 1, seen, known, inserted, tooLarge, capped: capped ? 1 : 0 }
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error
    log.warn('an integration could not be reconciled', {
      event: 'webhook.reconcile_given_up',
      integration: integrationId,
      error: error.cause?.message,
    })
    return { ...NOTHING, integrations: 1, failed: 1 }
  }
}

const NOTHING: ReconcileWebhooksResult = {
  integrations: 0,
  seen: 0,
  known: 0,
  inserted: 0,
  tooLarge: 0,
  capped: 0,
  failed: 0,
  skipped: 0,
  reasons: [],
}

function added(a: ReconcileWebhooksResult, b: ReconcileWebhooksResult): ReconcileWebhooksResult {
  return {
    integrations: a.integrations + b.integrations,
    seen: a.seen + b.seen,
    known: a.known + b.known,
    inserted: a.inserted + b.inserted,
    tooLarge: a.tooLarge + b.tooLarge,
    capped: a.capped + b.capped,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    reasons: [...a.reasons, ...b.reasons].slice(0, MAX_REASONS),
  }
}
