/**
 * The lasting mark of an integration that a person has to authorize again. Rule: docs/behaviour/oauth.md, "Reauthorization".
 */
import { integrationKey } from '../cache/integration-keys.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import type { Integration } from '../providers/integration.ts'

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
  const { clock, listeners } = framework
  const mark = { reason: reason.slice(0, MAX_REASON_LENGTH), since: clock.now().toISOString() }
  const isFirst = await addMark(framework, integration.id, mark)
  return async () => {
    if (isFirst) await listeners.emit('ReauthRequired', { integration, reason: mark.reason })
  }
}

/** With its durable event. @returns whether there was no mark */
async function addMark(framework: Framework, integrationId: number, mark: StoredMark): Promise<boolean> {
  const { cache, db, listeners } = framework
  if (!listeners.isDurable('ReauthRequired')) return cache.add(reauthKey(integrationId), { ...mark }, null)
  return db.transaction(async (tx) => {
    const isFirst = await cache.within(tx).add(reauthKey(integrationId), { ...mark }, null)
    const { reason } = mark
    if (isFirst) await recordEvents(framework, tx, integrationId, [{ name: 'ReauthRequired', payload: { reason } }])
    return isFirst
  })
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
