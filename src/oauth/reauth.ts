/**
 * The lasting mark of an integration that a person has to authorize again. Rule: docs/behaviour/oauth.md, "Reauthorization".
 */
import { integrationKey } from '../cache/integration-keys.ts'
import type { Transaction } from '../db/client.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { requireLocked } from '../integrations/queries.ts'
import type { Integration } from '../providers/integration.ts'
import type { Tokens } from './rules.ts'
import { isSamePair, tokensOf } from './rules.ts'

export interface ReauthMark {
  readonly reason: string
  readonly since: Date
}

interface StoredMark {
  readonly reason: string
  readonly since: string
}

const MAX_REASON_LENGTH = 255

function reauthKey(integrationId: number): string {
  return integrationKey(integrationId, 'reauth-required')
}

/**
 * Sets the mark. Of several callers at the same moment, one announces it.
 *
 * @returns announces the mark: to be called when no lock is held, since listeners take as long as they like
 */
export async function markReauthRequired(
  framework: Framework,
  integration: Integration,
  reason: string,
): Promise<() => Promise<void>> {
  const mark = newMark(framework, reason)
  const isFirst = await framework.db.transaction((tx) => addMark(framework, tx, integration.id, mark))
  return announcing(framework, integration, mark, isFirst)
}

/**
 * As {@link markReauthRequired}, under the lock of the row, for a pair of tokens that is no good any more.
 *
 * @param reasonOf in the same transaction; null: nothing is marked
 * @returns null: the pair has been replaced, so `reasonOf` was not asked. @throws IntegrationNotFound
 */
export async function markPair(
  framework: Framework,
  integration: Integration,
  pair: Tokens,
  reasonOf: (tx: Transaction) => Promise<string | null>,
): Promise<(() => Promise<void>) | null> {
  const { db, tables, encryption } = framework
  const silent = async (): Promise<void> => {}
  return db.transaction(async (tx) => {
    const row = await requireLocked(tx, tables, integration.id)
    // A late answer that is stored at the same moment comes before, or takes away what is noted here.
    if (!isSamePair(tokensOf(encryption.decrypt(row.id, row.credentials)), pair)) return null
    const reason = await reasonOf(tx)
    if (reason === null) return silent
    const mark = newMark(framework, reason)
    return announcing(framework, integration, mark, await addMark(framework, tx, integration.id, mark))
  })
}

function newMark({ clock }: Framework, reason: string): StoredMark {
  return { reason: reason.slice(0, MAX_REASON_LENGTH), since: clock.now().toISOString() }
}

function announcing(
  { listeners }: Framework,
  integration: Integration,
  { reason }: StoredMark,
  isFirst: boolean,
): () => Promise<void> {
  return async () => {
    if (isFirst) await listeners.emit('ReauthRequired', { integration, reason })
  }
}

/** With its durable event. @returns whether there was no mark */
async function addMark(
  framework: Framework,
  tx: Transaction,
  integrationId: number,
  mark: StoredMark,
): Promise<boolean> {
  const isFirst = await framework.cache.within(tx).add(reauthKey(integrationId), { ...mark }, null)
  const { reason } = mark
  if (isFirst) await recordEvents(framework, tx, integrationId, [{ name: 'ReauthRequired', payload: { reason } }])
  return isFirst
}

/** Null: its authorization is good, as far as is known. */
export async function reauthMark(framework: Framework, integrationId: number): Promise<ReauthMark | null> {
  return (await reauthMarks(framework, [integrationId])).get(integrationId) ?? null
}

/** The marks of these integrations, in one query. */
export async function reauthMarks(
  { cache }: Framework,
  integrationIds: readonly number[],
): Promise<Map<number, ReauthMark>> {
  const found = await cache.getMany(integrationIds.map(reauthKey))
  return new Map(
    integrationIds.flatMap((id) => {
      const mark = found.get(reauthKey(id)) as StoredMark | undefined
      return mark === undefined ? [] : [[id, { reason: mark.reason, since: new Date(mark.since) }]]
    }),
  )
}

export async function clearReauthMark({ cache }: Framework, integrationId: number): Promise<void> {
  await cache.delete(reauthKey(integrationId))
}
