/** Sync runs as they are listed and shown. Rule: docs/behaviour/operator-api.md, "Syncs". */

import type { SyncItemRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { SyncRunNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import { checkChoice, checkIds, checkPeriod, newestFirst } from '../framework/list-filter.ts'
import type { SyncRunFilter, SyncRunSummary } from './items/item-list-queries.ts'
import { countRunItems, findSyncRun, itemTroubles, pageOfSyncRuns } from './items/item-list-queries.ts'
import { RUN_STATUSES } from './run-rules.ts'

export type { SyncRunSummary }

export interface ListSyncRuns extends SyncRunFilter {
  readonly status?: (typeof RUN_STATUSES)[number] | undefined
  /** Only those of a lower id. */
  readonly after?: number | undefined
  /** At least 1. */
  readonly limit?: number | undefined
}

/** Newest first; backfills, too. @throws InvalidArgumentException at once, before anything is read */
export function listSyncRuns(framework: Framework, given: ListSyncRuns = {}): AsyncIterable<SyncRunSummary> {
  const { after, limit, ...filter } = given
  checkIds({ integrationId: filter.integrationId, after, limit })
  checkChoice('status', filter.status, RUN_STATUSES)
  checkPeriod(filter.since, filter.until)
  const { db, tables } = framework
  return newestFirst((page) => pageOfSyncRuns(db, tables, filter, page), { after, limit })
}

export interface SyncRunDetail extends SyncRunSummary {
  /** As they are now: a retry or a skip changes them after the end, too. */
  readonly items: Readonly<Record<SyncItemRow['status'], number>>
  /** How many of them wait for another attempt, */
  readonly waiting: number
  /** and when the first of these is tried again. */
  readonly nextAttemptAt: Date | null
  /** What the failed and the waiting ones ended with: the three most frequent errors. */
  readonly errors: readonly { readonly error: string; readonly items: number }[]
}

const MAX_ERRORS = 3

/** @throws SyncRunNotFound */
export async function getSyncRun({ db, tables }: Framework, id: number): Promise<SyncRunDetail> {
  const run = isId(id) ? await findSyncRun(db, tables, id) : null
  if (run === null) throw new SyncRunNotFound(id)
  const items = { pending: 0, processing: 0, success: 0, failed: 0, skipped: 0 }
  for (const { status, items: n } of await countRunItems(db, tables, id)) items[status] = n
  return { ...run, items, ...(await itemTroubles(db, tables, id, MAX_ERRORS)) }
}
