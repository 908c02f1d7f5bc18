/** Sync items as they are listed and shown. Rule: docs/behaviour/operator-api.md, "Syncs". */

import type { SyncItemRow } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { InvalidArgumentException, SyncItemNotFound } from '../../framework/errors.ts'
import { isId } from '../../framework/id.ts'
import { INSTANT, Instant } from '../../framework/instant.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts, newestFirst } from '../../framework/list-filter.ts'
import { REDACTED, secretsOf } from '../../framework/redaction.ts'
import { redacted } from '../../framework/redaction-thread.ts'
import { findIntegration } from '../../integrations/queries.ts'
import type { FailedItem, ListFailedItemsInput } from '../sync-jobs.ts'
import type { ItemStanding, SyncItemFilter, SyncItemSummary } from './item-list-queries.ts'
import { findSyncItem, pageOfSyncItems } from './item-list-queries.ts'
import { SYNC_ITEM_STATUSES } from './item-rules.ts'

const DEFAULT_FAILED = 50

export type { SyncItemSummary }

/**
 * Failed items that no later run made up for, newest first: those are what is left to do. Or, asked for, all failed ones, or those
 * that wait for another attempt. @throws InvalidArgumentException
 */
export async function listFailedItems(
  framework: Framework,
  { integrationId, since, limit = DEFAULT_FAILED, all = false, waiting = false }: ListFailedItemsInput,
): Promise<FailedItem[]> {
  if (all && waiting)
    throw new InvalidArgumentException(
      'all',
      'it is of failed items, and those that wait were asked for: give one of both',
    )
  const kind = waiting ? { waiting } : all ? { status: 'failed' as const } : { madeUpFor: false }
  const failed: FailedItem[] = []
  for await (const row of listSyncItems(framework, { ...kind, integrationId, since: momentOf(since), limit })) {
    const { id, integrationId: of, eventClass, externalId, attempts, holdsCursor, madeUpForBy } = row
    const error = row.error ?? row.lastError
    const createdAt = row.createdAt.toISOString()
    const nextAttemptAt = row.nextAttemptAt?.toISOString() ?? null
    failed.push({
      id,
      integrationId: of,
      eventClass,
      externalId,
      error,
      attempts,
      createdAt,
      holdsCursor,
      madeUpForBy,
      nextAttemptAt,
    })
  }
  return failed
}

function momentOf(since: string | undefined): Date | undefined {
  if (since === undefined) return undefined
  const moment = Instant.safeParse(since)
  if (moment.success) return moment.data
  throw new InvalidArgumentException('since', `${INSTANT}, is allowed; ${String(since)} was given`)
}

export interface ListSyncItems extends SyncItemFilter {
  /** Only those of a lower id. */
  readonly after?: number | undefined
  /** At least 1. */
  readonly limit?: number | undefined
}

/** Newest first, without payloads. @throws InvalidArgumentException at once, before anything is read */
export function listSyncItems(framework: Framework, given: ListSyncItems = {}): AsyncIterable<SyncItemSummary> {
  const { after, limit, ...filter } = given
  const { integrationId, syncLogId, status, eventClass, externalId, since, until } = filter
  checkIds({ integrationId, syncLogId, after, limit })
  checkTexts({ eventClass, externalId })
  checkChoice('status', status, SYNC_ITEM_STATUSES)
  checkPeriod(since, until)
  // What one provider calls 7 has nothing to do with another's, and no index leads with it.
  if (externalId !== undefined && integrationId === undefined && syncLogId === undefined)
    throw new InvalidArgumentException('externalId', 'it is looked for in one integration or one run: give either, too')
  const { db, tables } = framework
  return newestFirst((page) => pageOfSyncItems(db, tables, filter, page), { after, limit })
}

/** With its payload as stored; null once it is erased. */
export type SyncItemDetail = Omit<SyncItemRow, 'claim'> & ItemStanding

/** The row with what was listed: for code, and not for a screen. @throws SyncItemNotFound */
export async function getSyncItem({ db, tables }: Framework, id: number): Promise<SyncItemDetail> {
  const row = isId(id) ? await findSyncItem(db, tables, id) : null
  if (row === null) throw new SyncItemNotFound(id)
  return row
}

/**
 * The same for people: what the integration's credentials hold is redacted. With credentials that can't be read nobody knows
 * what that is, and nothing that was listed is shown.
 *
 * @throws SyncItemNotFound
 */
export async function showSyncItem(framework: Framework, id: number): Promise<SyncItemDetail> {
  const { db, tables, encryption } = framework
  const item = await getSyncItem(framework, id)
  const owner = await findIntegration(db, tables, item.integrationId)
  const secrets = owner === null ? null : knownSecrets(() => encryption.decrypt(owner.id, owner.credentials))
  const shown = async (value: unknown): Promise<unknown> => {
    if (value === null || value === undefined) return null
    if (secrets === null) return REDACTED
    const text = JSON.stringify(value)
    return JSON.parse(await redacted(text, 'redactBody', text, secrets))
  }
  return { ...item, payload: await shown(item.payload), checkpointValue: await shown(item.checkpointValue) }
}

function knownSecrets(decrypt: () => Record<string, unknown>): string[] | null {
  try {
    return secretsOf(decrypt())
  } catch {
    return null
  }
}
