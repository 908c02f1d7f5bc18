/**
 * Takes up webhooks that are stranded, and tries failed ones again: three passes, page by page. No statement here reads a payload.
 *
 * Rule: docs/behaviour/webhook-recovery.md.
 */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { bigints } from '../db/integrations-of.ts'
import { clockNow, jsonText } from '../db/schema/columns.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import { mendOrder, passTurnsBehind } from './order.ts'
import { isNotErased } from './queries.ts'
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

/** Which rows are due. */
export type Due =
  | {
      readonly status: 'processing' | 'pending'
      /** Since the row was last written; a row of exactly this age is not due. */
      readonly timeoutSeconds: number
    }
  | {
      readonly status: 'failed'
      readonly maxAttempts: number
      /** The wait after attempt N is entry N, the last one past the end. A row whose wait ends now is due. */
      readonly backoffSeconds: readonly number[]
    }

/** A row that was taken up, and what it was before. */
interface TakenUp {
  readonly id: number
  readonly integrationId: number
  readonly attempts: number
  readonly status: WebhookRow['status']
  readonly error: string | null
  readonly processedAt: string | null
  readonly orderingKey: string | null
  /** Another row of its ordering key has the turn, or is to get it: it is not run yet. */
  readonly waits: boolean
  readonly updatedAt: string
  readonly touchedAt: string
}

interface DuePage {
  /** Default: those of all, by ascending id. */
  readonly crowd?: Crowd
  /** Only those of a higher id: a row that is due again within the pass waits for the next one. */
  readonly afterId?: number
  readonly limit: number
}

/** Integrations whose many rows are taken up together. */
interface Crowd {
  readonly integrationIds: readonly number[]
  /** Where the last page has ended. Default: the first page. */
  readonly from?: CrowdPlace | undefined
}

/** Of a due row, in the order of the index that has them. */
interface CrowdPlace {
  /** 0 where the index has none. */
  readonly attempts: number
  readonly at: string
}

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
  await mendOrderIfItCan(framework)
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
      'workflows that do not go on could not be looked for',
    )
  }
  return replaced
}

/** It mends rarities: where it fails, rows are taken up all the same. */
async function mendOrderIfItCan(framework: Framework): Promise<void> {
  try {
    await mendOrder(framework)
  } catch (error) {
    framework.logger.warn(
      { event: 'webhook.order_not_mended', error: errorLine(error, 300) },
      'webhooks that wait for a turn which no webhook has could not be looked for',
    )
  }
}

/**
 * All of them are walked through together, once: for each by itself, all due rows of the others would be read again.
 *
 * @param count gets the number of rows of each page
 */
async function wakeCrowded(
  framework: Framework,
  due: Due,
  signal: AbortSignal,
  count: (rows: number) => void,
): Promise<void> {
  const { db, tables, workflows } = framework
  const crowded = await crowdedIntegrations(db, tables, due, CROWD)
  const integrationIds = crowded.map(({ id }) => id)
  let from: CrowdPlace | undefined
  // No more than there were: one that fails again meanwhile waits for the next run.
  for (let left = crowded.reduce((sum, { rows }) => sum + rows, 0); left > 0; left -= CROWD_PAGE_ROWS) {
    signal.throwIfAborted()
    const limit = Math.min(CROWD_PAGE_ROWS, left)
    const taken = await takeUpDue(db, tables, due, { crowd: { integrationIds, from }, limit })
    await passTurnsBehind(
      framework,
      taken.filter(({ waits }) => waits),
    )
    if (taken.length > 0) workflows.wakeInbox()
    count(taken.length)
    if (taken.length < limit) return
    from = lastPlace(due, taken)
  }
}

function lastPlace(due: Due, taken: readonly TakenUp[]): CrowdPlace | undefined {
  const places = taken.map(({ attempts, processedAt, updatedAt }) =>
    due.status === 'failed' ? { attempts, at: processedAt ?? updatedAt } : { attempts: 0, at: updatedAt },
  )
  return places.sort((a, b) => a.attempts - b.attempts || Date.parse(a.at) - Date.parse(b.at)).at(-1)
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
    const waiting = taken.filter(({ waits }) => waits)
    // The inbox is woken for those that get a turn.
    await passTurnsBehind(framework, waiting)
    const runnable = taken.filter(({ waits }) => !waits)
    const { started, error } = await startEach(framework, due, runnable)
    count(waiting.length + started)
    jobs += waiting.length + started
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
      const subject = await subjectOf(framework, row.integrationId)
      integrationLogger(framework, subject).warn(
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

/**
 * Takes up the next due rows: their `updated_at` moves, and `failed` ones become `pending`, so that neither another run of
 * recovery nor the next page finds them due.
 *
 * A failed row with an ordering key that has given its turn up waits for it again, behind the row that has it by now.
 *
 * Of several runs at once each row has one winner, since rows that another one is taking are passed over. A row that was
 * settled, claimed or touched meanwhile is checked again under its lock, and is no longer due.
 */
export async function takeUpDue(db: Database, tables: Tables, due: Due, page: DuePage): Promise<TakenUp[]> {
  const { webhooks } = tables
  const { crowd, afterId = 0, limit } = page
  // The sums keep Postgres from walking the whole table in the hope that due rows come soon: it can't know how few.
  const next = crowd === undefined ? sql`and id + 0 > ${afterId} order by id + 0` : ofCrowd(due, crowd)
  const rows = await db.execute<{ [Column in keyof TakenUp]: TakenUp[Column] }>(sql`
    with due as (
      select id, attempts, status, error, processed_at, updated_at
      from ${webhooks}
      where ${isDue(tables, due)} ${next}
      limit ${limit} for update skip locked
    )
    update ${webhooks} w
    set updated_at = clock_timestamp()
        ${due.status === 'failed' ? TRIED_AGAIN : sql``}
    from due d
    where w.id = d.id and w.status = d.status and w.attempts = d.attempts and w.updated_at = d.updated_at
    returning w.id, w.integration_id as "integrationId", w.attempts, d.status, d.error, d.processed_at as "processedAt",
              w.ordering_key as "orderingKey", w.key_turn is false as waits, d.updated_at as "updatedAt",
              w.updated_at as "touchedAt"`)
  return rows
    .map((row) => ({ ...row, id: Number(row.id), integrationId: Number(row.integrationId) }))
    .sort((a, b) => a.id - b.id)
}

/**
 * In the order of the index that has the due rows, so that a page ends where it is full. The crowd has many of them.
 * Postgres can't know that, and would join or sort them all for each page: by `is true` it expects every second row.
 */
function ofCrowd(due: Due, { integrationIds, from }: Crowd): SQL {
  const isOfThem = sql`(integration_id in (select unnest(${bigints(integrationIds)}))) is true`
  if (due.status !== 'failed') {
    const behind = from === undefined ? sql`` : sql`and updated_at >= ${from.at}::timestamptz`
    return sql`and ${isOfThem} ${behind} order by updated_at`
  }
  const behind =
    from === undefined
      ? sql``
      : sql`and (attempts, processed_at) >= (${from.attempts}::smallint, ${from.at}::timestamptz)`
  return sql`and ${isOfThem} ${behind} order by attempts, processed_at`
}

const TRIED_AGAIN = sql`, status = 'pending', error = null, processed_at = null,
            key_turn = case when w.ordering_key is not null then coalesce(w.key_turn, false) end`

/** Puts rows back as they were, unless another statement has moved them since. */
export async function undoTakeUp(
  db: Database,
  { webhooks }: Tables,
  due: Due,
  rows: readonly TakenUp[],
): Promise<void> {
  if (rows.length === 0) return
  await db.execute(sql`
    with taken as (
      select * from jsonb_to_recordset(${jsonText(rows)}::jsonb) as t
        (id bigint, attempts int, status text, error text, "processedAt" timestamptz, "updatedAt" timestamptz,
         "touchedAt" timestamptz)
    )
    update ${webhooks} w
    set status = t.status, error = t.error, processed_at = t."processedAt", updated_at = t."updatedAt"
    from taken t
    where w.id = t.id and w.status = ${due.status === 'failed' ? 'pending' : due.status}
      and w.attempts = t.attempts and w.updated_at = t."touchedAt"`)
}

/** Integrations with more due rows than `above`, and how many. */
async function crowdedIntegrations(
  db: Database,
  tables: Tables,
  due: Due,
  above: number,
): Promise<{ id: number; rows: number }[]> {
  const rows = await db.execute<{ id: string; rows: number }>(sql`
    select integration_id as id, count(*)::int as rows from ${tables.webhooks}
    where ${isDue(tables, due)}
    group by integration_id having count(*) > ${above} order by integration_id`)
  return rows.map((row) => ({ id: Number(row.id), rows: row.rows }))
}

/** The clock is read once, by a subquery: an index can't be searched by a value that may change from row to row. */
const NOW = sql`(select ${clockNow()})`

/** No webhook of an integration that its health disabled is due: its rows wait for `enable()`. */
function isDue({ webhooks, integrations }: Tables, due: Due): SQL {
  const isServed = sql`not exists (
    select 1 from ${integrations} i where i.id = ${webhooks.integrationId} and i.health_status = 'disabled')`
  if (due.status !== 'failed') {
    const timeout = sql`make_interval(secs => ${due.timeoutSeconds}::double precision)`
    const mayRun = due.status === 'pending' ? sql`and ${webhooks.keyTurn} is not false` : sql``
    return sql`${webhooks.status} = ${due.status} ${mayRun} and ${webhooks.updatedAt} < ${NOW} - ${timeout} and ${isServed}`
  }
  const backoff = sql`(${jsonText(due.backoffSeconds)}::jsonb ->>
    (least(${webhooks.attempts}, ${due.backoffSeconds.length}::int) - 1))::double precision`
  return sql`${webhooks.status} = 'failed' and ${webhooks.attempts} >= 1 and ${webhooks.attempts} < ${due.maxAttempts}::int
    and ${webhooks.processedAt} + make_interval(secs => ${backoff}) <= ${NOW}
    and ${webhooks.dismissedAt} is null and ${isNotErased(webhooks)} and ${isServed}`
}
