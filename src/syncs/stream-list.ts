/** The streams of an integration, as they are shown, and their intervals by hand. Rule: docs/behaviour/sync-streams.md. */
import { and, eq, sql } from 'drizzle-orm'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { requireIntegration, requireLocked } from '../integrations/queries.ts'
import { declaredStream, streamMeant, streamsOf } from '../providers/streams.ts'
import type { ShownInterval } from './adaptive-rules.ts'
import { shownInterval } from './adaptive-rules.ts'
import { cursorOf } from './cursor.ts'
import { roundSeconds } from './due.ts'
import { madeUpForBy } from './items/item-queries.ts'
import type { SyncPause } from './pause-rules.ts'
import { pauseOf } from './pause-rules.ts'
import { intervalMultiplier } from './run-rules.ts'
import { pauseActs } from './standing-queries.ts'
import { LEAST_SECONDS, MOST_SECONDS } from './stream-rules.ts'
import { ofLocked, overlaid } from './sync-rows.ts'

/** Where one stream stands. */
export interface StreamStanding {
  readonly stream: string
  readonly syncCursor: Json
  /** End of its last clean run. */
  readonly lastSyncedAt: Date | null
  /** End of its last run, clean or not. */
  readonly lastRunAt: Date | null
  readonly nextSyncAt: Date | null
  readonly consecutiveSyncFailures: number
  /** Since when it counts as stale; null: it does not. */
  readonly staleSince: Date | null
  /** Between runs, as it is in force, with what decided about it and how old the data may be; null: only by hand. */
  readonly interval: ShownInterval | null
  /** Of its own, set by a person; null: the integration's, or what its provider declares. */
  readonly syncIntervalSeconds: number | null
  /** The stream whose first run has to end before its first one; null: that is over, or it waits for none. */
  readonly waitsFor: string | null
  /** Items that failed, and that no later run made up for. */
  readonly failedItems: number
  /** Items between two attempts. */
  readonly waitingItems: number
  /** Its own, or one of all syncs of the integration; null: none that the audit knows. */
  readonly pause: SyncPause | null
}

/** In the provider's order; none where it has one `sync()`, or is not registered. */
export async function streamStandings(
  framework: Pick<Framework, 'db' | 'tables' | 'providers' | 'config'>,
  row: IntegrationRow,
): Promise<StreamStanding[]> {
  const { db, tables, providers } = framework
  const { failure_backoff_max_multiplier: most } = framework.config.sync
  const provider = providers.find(row.provider)
  const names = provider === null ? [] : streamsOf(provider).filter((name) => name !== null)
  if (provider === null || names.length === 0) return []
  const { streams, syncItems } = tables
  const stored = await db.select().from(streams).where(eq(streams.integrationId, row.id))
  const found = new Map(stored.map((each) => [each.stream, each]))
  const counted = await db
    .select({
      stream: syncItems.stream,
      failed: sql<number>`(count(*) filter (where ${syncItems.status} = 'failed'))::int`,
      waiting: sql<number>`(count(*) filter (where ${syncItems.status} = 'processing'))::int`,
    })
    .from(syncItems)
    .where(
      and(
        eq(syncItems.integrationId, row.id),
        sql`(${syncItems.status} = 'failed' and ${madeUpForBy(syncItems)} is null
          or ${syncItems.status} = 'processing' and ${syncItems.nextAttemptAt} is not null)`,
      ),
    )
    .groupBy(syncItems.stream)
  const items = new Map(counted.map((each) => [each.stream, each]))
  const acts = (await pauseActs(db, tables, [row.id], names)).get(row.id) ?? []
  return names.map((stream) => {
    const place = found.get(stream) ?? null
    const seen = overlaid(row, stream, place)
    const { everySeconds = null, after } = declaredStream(provider, stream) ?? {}
    const { lastSyncedAt, nextSyncAt, consecutiveSyncFailures, syncStaleAlertedAt, syncIntervalMinutes } = seen
    return {
      stream,
      syncCursor: cursorOf(seen),
      lastSyncedAt,
      lastRunAt: place?.lastRunAt ?? null,
      nextSyncAt,
      consecutiveSyncFailures,
      staleSince: syncStaleAlertedAt,
      interval: shownInterval(
        {
          declared: everySeconds,
          setSeconds: syncIntervalMinutes === null ? null : syncIntervalMinutes * 60,
          adaptiveSeconds: place?.adaptiveSeconds ?? null,
          adaptiveReason: place?.adaptiveReason ?? null,
        },
        { multiplier: intervalMultiplier(consecutiveSyncFailures, most), roundSeconds: roundSeconds(framework) },
      ),
      syncIntervalSeconds: place?.syncIntervalSeconds ?? null,
      waitsFor: after !== undefined && (found.get(after)?.lastRunAt ?? null) === null ? after : null,
      failedItems: items.get(stream)?.failed ?? 0,
      waitingItems: items.get(stream)?.waiting ?? 0,
      pause: pauseOf(acts, stream),
    }
  })
}

/**
 * Sets how often a stream is synced; what is planned stays until its next run ends.
 *
 * @param seconds null: as the integration's own interval says, or the provider
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, InvalidArgumentException
 */
export async function setStreamInterval(
  framework: Framework,
  id: number,
  seconds: number | null,
  { stream }: { readonly stream: string },
): Promise<void> {
  if (seconds !== null && !(Number.isInteger(seconds) && seconds >= LEAST_SECONDS && seconds <= MOST_SECONDS))
    throw new InvalidArgumentException(
      'seconds',
      `an integer from ${LEAST_SECONDS} to ${MOST_SECONDS} is allowed, ${seconds} was given`,
    )
  const { db, tables, providers } = framework
  const { provider } = await requireIntegration(framework, id)
  const named = streamMeant(provider, providers.get(provider), stream)
  const { streams } = tables
  await db.transaction(async (tx) => {
    await ofLocked(tx, tables, await requireLocked(tx, tables, id), named)
    await tx
      .update(streams)
      .set({ syncIntervalSeconds: seconds })
      .where(and(eq(streams.integrationId, id), eq(streams.stream, stream)))
  })
}
