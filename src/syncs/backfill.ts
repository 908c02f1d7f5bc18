/** Starts a backfill, and opens its slices. Rule: docs/behaviour/sync-backfills.md, "Backfills". */

import { and, asc, eq, lt, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { INSTANT, Instant } from '../framework/instant.ts'
import { integrationLogger } from '../framework/logger.ts'
import { requireActive } from '../integrations/enabled.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { switchedOffBy } from '../integrations/rules.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { insertLog, newestLog } from '../observability/log-queries.ts'
import { hasBackfill, requireContract } from '../providers/contracts.ts'
import { streamMeant, syncSource } from '../providers/streams.ts'
import { cursorOf } from './cursor.ts'
import { abandonSlice } from './cut-short.ts'
import { itemsHeldByOwnWorkflow } from './leftovers.ts'
import { runLogger } from './run-logger.ts'
import type { RunStart } from './start.ts'
import { nothingToDo } from './start.ts'
import type { BackfillInput } from './sync-jobs.ts'
import { windowProblem } from './sync-jobs.ts'
import { isOfStream, lockSyncRow, namedStream } from './sync-rows.ts'

/**
 * Starts the one backfill that an integration can have at a time; one that lives already goes on with its own window.
 *
 * @throws IntegrationNotFound, IntegrationInactive, UnknownProvider, UnsupportedByProvider, BackendUnreachable;
 *   InvalidArgumentException for a bad window
 */
export async function startBackfill(
  framework: Framework,
  { integrationId, stream, from, to }: BackfillInput,
): Promise<'started' | 'already running'> {
  const { providers, workflows } = framework
  const row = await requireIntegration(framework, integrationId)
  const provider = providers.get(row.provider)
  const named = streamMeant(row.provider, provider, stream)
  requireContract(row.provider, syncSource(provider, named) ?? provider, hasBackfill, 'HasBackfill')
  requireActive(row)
  return workflows.startBackfill({ integrationId, ...namedStream(named), ...checkedWindow(from, to) }, row.provider)
}

function checkedWindow(from: string, to: string): Pick<BackfillInput, 'from' | 'to'> {
  const [begin, end] = [checkedMoment('from', from), checkedMoment('to', to)]
  const problem = windowProblem(begin.getTime(), end.getTime())
  if (problem !== null) throw new InvalidArgumentException('to', problem)
  return { from: begin.toISOString(), to: end.toISOString() }
}

function checkedMoment(argument: string, text: unknown): Date {
  const moment = Instant.safeParse(text)
  if (moment.success) return moment.data
  throw new InvalidArgumentException(argument, `${INSTANT}, is allowed; ${JSON.stringify(text)} was given`)
}

export interface Slice {
  readonly integrationId: number
  readonly stream?: string
  readonly runId: string
  /** ISO 8601. */
  readonly from: string
  readonly to: string
  /** Where the whole window ends. Not given: by a workflow of an earlier release. */
  readonly until?: string
}

/**
 * Opens the log of one slice, once what a dead backfill left open is ended. A second try finds the log of the first.
 *
 * @param slice `runId`: of the workflow's first run; `from` is inclusive, `to` exclusive; `startedAt`: when the workflow started. All
 *   moments are ISO 8601
 * @throws BackendUnreachable
 */
export async function openSlice(
  framework: Framework,
  slice: Slice & { readonly startedAt: string },
): Promise<Extract<RunStart, { kind: 'open' | 'nothing to do' }>> {
  const { db, tables, providers } = framework
  const { integrationId, runId, from, to, until } = slice
  await endDeadBackfills(framework, slice)
  return db.transaction(async (tx) => {
    // Two tries that overlap open one log.
    const row = await lockSyncRow(tx, tables, slice)
    if (row === null) return nothingToDo(`there is no integration ${integrationId}`)
    if (switchedOffBy(row) !== null) return nothingToDo('the integration is switched off')
    const provider = providers.find(row.provider)
    if (provider === null) return nothingToDo(`the provider "${row.provider}" is not registered`)
    const source = syncSource(provider, row.stream)
    if (source === null || !hasBackfill(source))
      return nothingToDo(`the provider "${row.provider}" has no syncWindow()`)
    const { metadata: noted } = tables.logs
    const existing = await newestLog(
      tx,
      tables,
      { integrationId, stream: row.stream, operation: 'backfill' },
      sql`${noted} ->> 'run_id' = ${runId}`,
      sql`${noted} #>> '{window,from}' = ${from}`,
      sql`${noted} #>> '{window,to}' = ${to}`,
    )
    if (existing !== null) return { kind: 'open', syncLogId: existing.id }
    const metadata: RunMetadata = {
      run_id: runId,
      window: { from, to, ...(until === undefined ? {} : { until }) },
      incremental: false,
      cursor_before: cursorOf(row),
      enumerated: false,
    }
    const opened = { operation: 'backfill', direction: 'inbound', status: 'processing' } as const
    const syncLogId = await insertLog(tx, tables, { integrationId, stream: row.stream, ...opened, metadata })
    integrationLogger(framework, row).info(
      { event: 'backfill.slice_started', sync_log: syncLogId, from, to },
      'a slice of a backfill started',
    )
    return { kind: 'open', syncLogId }
  })
}

/**
 * Ends the slices that other backfills of the integration have left open: the id of a backfill's workflow is its lock, so
 * they belong to workflows that were terminated. Slices that were opened after `startedAt` may be of one that has taken its place.
 */
async function endDeadBackfills(
  framework: Framework,
  { integrationId, stream, runId, startedAt: before }: Slice & { readonly startedAt: string },
): Promise<void> {
  const { db, tables } = framework
  const error = 'the workflow of the backfill ended before this slice was done'
  for (const syncLogId of await openSlicesOfOthers(db, tables, {
    integrationId,
    ...namedStream(stream),
    runId,
    before,
  })) {
    const run = { integrationId, syncLogId }
    const retried = await itemsHeldByOwnWorkflow(framework, { syncLogId })
    if (await abandonSlice(framework, run, error, retried))
      (await runLogger(framework, run)).warn(
        { event: 'backfill.abandoned', error },
        'a slice of an earlier backfill was left open; it is failed, and its window may be started again',
      )
  }
}

/**
 * Slices of other backfills that say `processing`, oldest first.
 *
 * @param before ISO 8601: only those that were opened before
 */
async function openSlicesOfOthers(
  db: Database,
  { logs }: Tables,
  { integrationId, stream, runId, before }: Omit<Slice, 'from' | 'to'> & { readonly before: string },
): Promise<number[]> {
  const rows = await db
    .select({ id: logs.id })
    .from(logs)
    .where(
      and(
        eq(logs.integrationId, integrationId),
        isOfStream(logs.stream, stream),
        eq(logs.operation, 'backfill'),
        eq(logs.status, 'processing'),
        lt(logs.createdAt, new Date(before)),
        sql`${logs.metadata} ->> 'run_id' is distinct from ${runId}`,
      ),
    )
    .orderBy(asc(logs.id))
  return rows.map(({ id }) => id)
}
