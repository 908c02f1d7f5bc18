/** What an incident is about: the newest errors of each kind. Rule: docs/behaviour/explain.md, "The errors of an incident". */
import { and, desc, eq, gt, isNotNull, lte, sql } from 'drizzle-orm'
import { unionAll } from 'drizzle-orm/pg-core'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import { isUnclassed } from '../db/schema/requests-table.ts'
import type { IncidentRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { LifeLine, RecordKind } from './life-lines.ts'
import { because, line, logColumns, logText, requestColumns, requestText, short } from './life-lines.ts'

/** Of each kind. */
const SHOWN = 5
/** Newest failed rows of an integration that are looked through for those of an incident's time. */
const LOOKED_AT = 200
/** Newest runs, the same way. */
const RUNS_LOOKED_AT = 50
const CALLS_BEFORE_SECONDS = 3_600
/** An incident of syncs opens some intervals after their first failure. */
const ROWS_BEFORE_MS = 24 * 3_600_000

type Span = Pick<IncidentRow, 'integrationId' | 'openedAt' | 'closedAt'>

/** Each list is bounded, and read from an index that begins with the integration. */
export async function errorsOfIncident(framework: Framework, span: Span): Promise<LifeLine[]> {
  const lists = await Promise.all([
    failedCalls(framework, span),
    failedRuns(framework, span),
    failedItems(framework, span),
    failedWebhooks(framework, span),
    // How it stands now says nothing of a time that is over.
    ...(span.closedAt === null
      ? [itemsBeingRetried(framework, span), failingSubscription(framework, span), loopingRecords(framework, span)]
      : []),
  ])
  return lists.flat()
}

const ref = (kind: RecordKind, id: number, integrationId: number) => ({ kind, id, integrationId })

const beginning = ({ openedAt }: Span): Date => new Date(openedAt.getTime() - ROWS_BEFORE_MS)

/** Those before it that count against health, and the newest of any kind while it lasted. */
async function failedCalls({ db, tables }: Framework, { integrationId, openedAt, closedAt }: Span) {
  const { requests } = tables
  const { failureClass, createdAt } = requests
  const failed = (failure: FailureClass, ...within: Parameters<typeof and>) =>
    db
      .select(requestColumns(tables))
      .from(requests)
      .where(and(eq(requests.integrationId, integrationId), eq(failureClass, failure), ...within))
      .orderBy(desc(createdAt))
      .limit(SHOWN)
  const whileItLasted = and(gt(createdAt, openedAt), closedAt === null ? undefined : lte(createdAt, closedAt))
  const lasting = (failure: FailureClass) => failed(failure, whileItLasted)
  const unclassed = db
    .select(requestColumns(tables))
    .from(requests)
    .where(and(eq(requests.integrationId, integrationId), isUnclassed(failureClass, requests.error), whileItLasted))
    .orderBy(desc(createdAt))
    .limit(SHOWN)
  const [before, during] = await Promise.all([
    failed(
      'upstream',
      lte(createdAt, openedAt),
      gt(createdAt, sql`${openedAt.toISOString()}::timestamptz - make_interval(secs => ${CALLS_BEFORE_SECONDS})`),
    ),
    unionAll(lasting('upstream'), lasting('throttle'), lasting('client'), lasting('unknown'), unclassed),
  ])
  const newest = during.sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime()).slice(0, SHOWN)
  return [...before, ...newest].flatMap((call) =>
    line(call.createdAt, requestText(call), ref('request', call.id, integrationId)),
  )
}

/** Runs whose listing failed. */
async function failedRuns({ db, tables }: Framework, span: Span) {
  const { logs } = tables
  const { integrationId, closedAt } = span
  const newest = db
    .select(logColumns(tables))
    .from(logs)
    .where(and(eq(logs.integrationId, integrationId), eq(logs.operation, 'sync')))
    .orderBy(desc(logs.id))
    .limit(RUNS_LOOKED_AT)
    .as('newest')
  const runs = await db
    .select()
    .from(newest)
    .where(
      and(
        isNotNull(newest.error),
        gt(newest.createdAt, beginning(span)),
        closedAt === null ? undefined : lte(newest.createdAt, closedAt),
      ),
    )
    .orderBy(desc(newest.id))
    .limit(SHOWN)
  return runs.flatMap((run) => line(run.createdAt, `run ${run.id}: ${logText(run)}`, ref('run', run.id, integrationId)))
}

async function failedItems({ db, tables: { syncItems } }: Framework, span: Span) {
  const { id, externalId, attempts, error, completedAt, status } = syncItems
  const { integrationId, closedAt } = span
  const newest = db
    .select({ id, externalId, attempts, error, completedAt })
    .from(syncItems)
    .where(and(eq(syncItems.integrationId, integrationId), eq(status, 'failed')))
    .orderBy(desc(id))
    .limit(LOOKED_AT)
    .as('newest')
  const items = await db
    .select()
    .from(newest)
    .where(
      and(gt(newest.completedAt, beginning(span)), closedAt === null ? undefined : lte(newest.completedAt, closedAt)),
    )
    .orderBy(desc(newest.completedAt))
    .limit(SHOWN)
  return items.flatMap((item) =>
    line(
      item.completedAt,
      `item ${item.id}${namedAs(item.externalId)} failed after ${item.attempts} attempts${because(item.error)}`,
      ref('item', item.id, integrationId),
    ),
  )
}

async function itemsBeingRetried({ db, tables: { syncItems } }: Framework, { integrationId }: Span) {
  const { id, externalId, attempts, lastError, updatedAt, nextAttemptAt, status } = syncItems
  const items = await db
    .select({ id, externalId, attempts, lastError, updatedAt })
    .from(syncItems)
    .where(
      and(
        eq(syncItems.integrationId, integrationId),
        eq(status, 'processing'),
        isNotNull(nextAttemptAt),
        isNotNull(lastError),
      ),
    )
    // The sum: else a plan may walk back through what waits of all integrations.
    .orderBy(sql`${id} + 0 desc`)
    .limit(SHOWN)
  return items.flatMap((item) =>
    line(
      item.updatedAt,
      `item ${item.id}${namedAs(item.externalId)} waits after attempt ${item.attempts}${because(item.lastError)}`,
      ref('item', item.id, integrationId),
    ),
  )
}

const namedAs = (externalId: string | null): string =>
  externalId === null ? '' : ` (external id ${JSON.stringify(short(externalId))})`

async function failedWebhooks({ db, tables: { webhooks } }: Framework, span: Span) {
  const { id, eventType, attempts, error, processedAt, status } = webhooks
  const { integrationId, closedAt } = span
  const newest = db
    .select({ id, eventType, attempts, error, processedAt })
    .from(webhooks)
    .where(and(eq(webhooks.integrationId, integrationId), eq(status, 'failed')))
    .orderBy(desc(id))
    .limit(LOOKED_AT)
    .as('newest')
  const failed = await db
    .select()
    .from(newest)
    .where(
      and(gt(newest.processedAt, beginning(span)), closedAt === null ? undefined : lte(newest.processedAt, closedAt)),
    )
    .orderBy(desc(newest.processedAt))
    .limit(SHOWN)
  return failed.flatMap((webhook) =>
    line(
      webhook.processedAt,
      `webhook ${webhook.id}${webhook.eventType === null ? '' : ` of type ${short(webhook.eventType)}`} failed in attempt ${webhook.attempts}${because(webhook.error)}`,
      ref('webhook', webhook.id, integrationId),
    ),
  )
}

async function failingSubscription({ db, tables: { webhookSubscriptions } }: Framework, { integrationId }: Span) {
  const { failingSince, failures, lastError } = webhookSubscriptions
  const [subscription] = await db
    .select({ failingSince, failures, lastError })
    .from(webhookSubscriptions)
    .where(eq(webhookSubscriptions.integrationId, integrationId))
  if (subscription === undefined || subscription.lastError === null) return []
  return line(
    subscription.failingSince,
    `its webhook can not be kept registered since then, ${subscription.failures} looks failed${because(subscription.lastError)}`,
  )
}

async function loopingRecords({ db, tables: { writtenRecords } }: Framework, { integrationId }: Span) {
  const { key, loopingSince } = writtenRecords
  const records = await db
    .select({ key, loopingSince })
    .from(writtenRecords)
    .where(and(eq(writtenRecords.integrationId, integrationId), isNotNull(loopingSince)))
    .orderBy(desc(loopingSince))
    .limit(SHOWN)
  return records.flatMap(({ key: record, loopingSince: since }) =>
    line(since, `record ${JSON.stringify(short(record))} is written again and again since then`),
  )
}
