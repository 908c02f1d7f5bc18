/** Full listings of a stream that is incremental otherwise. Rule: docs/behaviour/sync-changes.md, "Full listings on schedule". */
import { sql } from 'drizzle-orm'
import type { Transaction } from '../../db/client.ts'
import { clockNow } from '../../db/schema/columns.ts'
import type { Tables } from '../../db/schema/tables.ts'
import type { IntegrationProvider } from '../../providers/contracts.ts'
import { hasStreams } from '../../providers/contracts.ts'
import type { SyncOf } from '../sync-jobs.ts'

/** One that did not end clean is tried again after this part of `fullEvery`. Ordinary runs go on meanwhile. */
const RETRY_SHARE = 0.1

/**
 * Begins a full listing if one is due. The stream has a row, whose integration is locked.
 *
 * @param fullEvery seconds
 * @returns whether the run is one
 */
export async function beginFullIfDue(
  tx: Transaction,
  { streams }: Tables,
  { integrationId, stream }: SyncOf,
  fullEvery: number,
): Promise<boolean> {
  const isOver = (column: 'last_full_at' | 'full_begun_at', seconds: number) =>
    sql`coalesce(${sql.raw(column)} + make_interval(secs => ${seconds}::float8) <= ${clockNow()}, true)`
  const rows = await tx.execute(sql`
    update ${streams} set full_begun_at = clock_timestamp(), updated_at = clock_timestamp()
    where integration_id = ${integrationId} and stream = ${stream}
      and ${isOver('last_full_at', fullEvery)} and ${isOver('full_begun_at', fullEvery * RETRY_SHARE)}
    returning 1`)
  return rows.length > 0
}

/** Notes that a full listing has ended without failed items. */
export async function noteFullEnd(
  tx: Transaction,
  { streams }: Tables,
  { integrationId, stream }: SyncOf,
): Promise<void> {
  await tx.execute(sql`
    update ${streams} set last_full_at = clock_timestamp(), updated_at = clock_timestamp()
    where integration_id = ${integrationId} and stream = ${stream}`)
}

const DAY_SECONDS = 86_400

/** Which streams of a provider never learn of a deletion, in words: the rows of a full listing are pruned before the next one. */
export function prunedBetweenListings(
  key: string,
  provider: IntegrationProvider,
  pruning: { readonly sync_items_days: number | null; readonly logs_days: number | null },
): string[] {
  if (!hasStreams(provider)) return []
  const kept = (['sync_items_days', 'logs_days'] as const).flatMap((name) => {
    const days = pruning[name]
    return days === null ? [] : [{ name, days }]
  })
  return Object.entries(provider.streams).flatMap(([stream, { fullEvery, handleMissing }]) => {
    if (fullEvery === undefined || handleMissing === undefined) return []
    const tooShort = kept.filter(({ days }) => days * DAY_SECONDS <= fullEvery)
    if (tooShort.length === 0) return []
    const options = tooShort.map(({ name, days }) => `pruning.${name} (${days})`).join(' and ')
    return [
      `No deletion is found in the stream ${stream} of "${key}": it lists in full each ${fullEvery} s, and ${options} has the rows of one full listing pruned before the next. Keep them for longer than that, or lower fullEvery.`,
    ]
  })
}
