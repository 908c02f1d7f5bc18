/**
 * Takes up webhooks that are stranded, and tries failed ones again: three passes, page by page.
 *
 * Rule: docs/behaviour/webhook-recovery.md.
 */

import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { Due, TakenUp } from './recovery-queries.ts'
import { crowdedIntegrations, takeUpDue, undoTakeUp } from './recovery-queries.ts'
import type { ProcessWebhookInput, RecoverWebhooksResult, ReplacedWorkflow } from './webhook-jobs.ts'

/** Webhooks that get a workflow of their own in a pass; the others wait for the next run. */
const MAX_JOBS = 500
/** More of one integration than this are its inbox's work: one signal instead of a workflow each. */
const CROWD = 100
const CROWD_PAGE_ROWS = 1_000
/** A worker that dies between taking up and starting strands at most this many rows for another timeout. */
const JOB_PAGE_ROWS = 50
/** Starts that wait for Temporal's answer at a time. */
const STARTS_AT_ONCE = 10

type Pass = Due['status']

/**
 * Rows that a broken-off run has taken up are not due any more, so the next one goes on behind them. Runs may overlap: each
 * row is taken up by one.
 *
 * @throws BackendUnreachable when Temporal can't be asked to start a job; what has no job by then is as it was
 */
export async function recoverWebhooks(framework: Framework, signal: AbortSignal): Promise<RecoverWebhooksResult> {
  const { processing_timeout, pending_timeout, max_attempts, retry_backoff } = framework.config.webhook
  const counts: Record<Pass, number> = { processing: 0, pending: 0, failed: 0 }
  const passes: Due[] = [
    { status: 'processing', timeoutSeconds: processing_timeout },
    { status: 'pending', timeoutSeconds: pending_timeout },
    { status: 'failed', maxAttempts: max_attempts, backoffSeconds: retry_backoff },
  ]
  const replaced = await replaceWedged(framework)
  try {
    for (const due of passes) {
      const count = (rows: number): void => {
        counts[due.status] += rows
      }
      // Rows that a dead worker holds are no inbox's to claim.
      if (due.status !== 'processing') await wakeCrowded(framework, due, signal, count)
      await startJobs(framework, due, signal, count)
    }
  } finally {
    if (Object.values(counts).some((rows) => rows > 0))
      framework.logger.info({ event: 'webhooks.recovered', ...counts }, 'took up webhooks')
  }
  return replaced.length === 0 ? counts : { ...counts, replaced }
}

/** What it ends may keep rows from being claimed. Rows are taken up all the same where Temporal can't list its workflows. */
async function replaceWedged({ workflows, logger }: Framework): Promise<ReplacedWorkflow[]> {
  const replaced: ReplacedWorkflow[] = []
  try {
    await workflows.replaceWedged((one) => replaced.push(one))
  } catch (error) {
    logger.warn(
      { event: 'workflow.not_checked', error: errorLine(error, 300) },
      'workflows whose task fails again and again could not be looked for',
    )
  }
  return replaced
}

/** @param count gets the number of rows of each page */
async function wakeCrowded(
  { db, tables, workflows }: Framework,
  due: Due,
  signal: AbortSignal,
  count: (rows: number) => void,
): Promise<void> {
  // So many as there were: one that fails again meanwhile waits for the next run.
  for (const { id: integrationId, rows } of await crowdedIntegrations(db, tables, due, CROWD))
    for (let left = rows; left > 0; left -= CROWD_PAGE_ROWS) {
      signal.throwIfAborted()
      const taken = await takeUpDue(db, tables, due, { integrationId, limit: CROWD_PAGE_ROWS })
      if (taken.length > 0) workflows.wakeInbox()
      count(taken.length)
      if (taken.length < CROWD_PAGE_ROWS) break
    }
}

async function startJobs(
  framework: Framework,
  due: Due,
  signal: AbortSignal,
  count: (rows: number) => void,
): Promise<void> {
  const { db, tables } = framework
  let afterId = 0
  for (let jobs = 0; jobs < MAX_JOBS; ) {
    signal.throwIfAborted()
    const limit = Math.min(JOB_PAGE_ROWS, MAX_JOBS - jobs)
    const taken = await takeUpDue(db, tables, due, { limit, afterId })
    afterId = taken.at(-1)?.id ?? afterId
    const { started, error } = await startEach(framework, due, taken)
    count(started)
    jobs += started
    // What was put back is due again: the next page would take the same.
    if (error !== undefined) throw error
    if (taken.length < limit) return
  }
}

/**
 * A job for each row. Where one can't be started, the row is put back as it was.
 *
 * @returns the error of the first that failed
 */
async function startEach(
  framework: Framework,
  due: Due,
  rows: readonly TakenUp[],
): Promise<{ started: number; error: unknown }> {
  const { db, tables, workflows } = framework
  const waiting = [...rows]
  const failed: TakenUp[] = []
  const errors: unknown[] = []
  const start = async (row: TakenUp): Promise<void> => {
    try {
      // Where a job of the row runs already, that is the one it gets.
      await workflows.startProcessWebhook(jobOf(due, row), row.integrationId)
    } catch (error) {
      failed.push(row)
      errors.push(error)
      const logger = integrationLogger(framework, await subjectOf(framework, row.integrationId))
      logger.warn(
        { event: 'webhook.job_not_started', webhook: row.id, error: errorLine(error, 300) },
        'a job could not be started; its webhook stays as it was',
      )
    }
  }
  const lane = async (): Promise<void> => {
    // Where Temporal is away, the next start would only wait for another 5 s.
    while (!errors.some((error) => isIntegrationsError(error, 'backend_unreachable'))) {
      const row = waiting.shift()
      if (row === undefined) return
      await start(row)
    }
  }
  await Promise.all(Array.from({ length: STARTS_AT_ONCE }, lane))
  const undone = [...failed, ...waiting]
  await undoTakeUp(db, tables, due, undone)
  return { started: rows.length - undone.length, error: errors[0] }
}

function jobOf(due: Due, { id, attempts }: TakenUp): ProcessWebhookInput {
  return due.status === 'processing' ? { webhookId: id, stuckAttempts: attempts } : { webhookId: id }
}
