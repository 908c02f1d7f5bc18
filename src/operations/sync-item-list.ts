/** Sync items as they are listed and shown. Rule: docs/behaviour/operator-api.md, "Syncs". */
import { z } from 'zod'
import { InvalidArgumentException, SyncItemNotFound } from '../core/errors.ts'
import { isId } from '../core/id.ts'
import { REDACTED, redactBody, secretsOf } from '../core/redaction.ts'
import type { FailedItem, ListFailedItemsInput } from '../core/sync-jobs.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import type { SyncItemFilter, SyncItemSummary } from '../db/queries/sync-lists.ts'
import { findSyncItem, pageOfSyncItems } from '../db/queries/sync-lists.ts'
import { SYNC_ITEM_STATUSES } from '../db/schema/sync-items.ts'
import type { SyncItemRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts, newestFirst } from './list-filter.ts'

const DEFAULT_FAILED = 50
const Since = z.iso.datetime({ offset: true }).transform((text) => new Date(text))

export type { SyncItemSummary }

/** Failed items, newest first. @throws InvalidArgumentException */
export async function listFailedItems(
  framework: Framework,
  { integrationId, since, limit = DEFAULT_FAILED }: ListFailedItemsInput,
): Promise<FailedItem[]> {
  const rows = listSyncItems(framework, { integrationId, status: 'failed', since: momentOf(since), limit })
  const failed: FailedItem[] = []
  for await (const { id, integrationId: of, eventClass, externalId, error, attempts, createdAt } of rows)
    failed.push({ id, integrationId: of, eventClass, externalId, error, attempts, createdAt: createdAt.toISOString() })
  return failed
}

function momentOf(since: string | undefined): Date | undefined {
  if (since === undefined) return undefined
  const moment = Since.safeParse(since)
  if (moment.success) return moment.data
  throw new InvalidArgumentException(
    'since',
    `a moment in ISO 8601 with its offset is allowed, such as 2031-06-01T12:00:00Z, ${String(since)} was given`,
  )
}

export interface ListSyncItems extends SyncItemFilter {
  /** Only those of a lower id. */
  readonly after?: number | undefined
  /** At most so many; at least 1. */
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
export type SyncItemDetail = Omit<SyncItemRow, 'claim'>

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
  const shown = (value: unknown): unknown => {
    if (value === null || value === undefined) return null
    return secrets === null ? REDACTED : (JSON.parse(redactBody(JSON.stringify(value), secrets)) as unknown)
  }
  return { ...item, payload: shown(item.payload), checkpointValue: shown(item.checkpointValue) }
}

function knownSecrets(decrypt: () => Record<string, unknown>): string[] | null {
  try {
    return secretsOf(decrypt())
  } catch {
    return null
  }
}
