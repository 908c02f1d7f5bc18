/**
 * Whether the Schedule that starts due syncs is paused. Temporal alone knows it; workers note it, so that pages and `explain` ask
 * Postgres. Rule: docs/behaviour/syncs.md, "Pause and resume".
 */
import type { Framework } from '../framework/context.ts'
import type { SchedulePause } from './pause-rules.ts'

const KEY = 'schedule-pause'

/** Kept as JSON. */
interface Noted {
  readonly id: string
  readonly note: string | null
  /** ISO 8601. */
  readonly since: string
}

/** Null: it is not paused, or no worker has looked since it was. */
export async function findSchedulePause({ cache }: Pick<Framework, 'cache'>): Promise<SchedulePause | null> {
  const noted = ((await cache.get(KEY)) ?? null) as Noted | null
  return noted === null ? null : { ...noted, since: new Date(noted.since) }
}

/**
 * Asks Temporal and notes the answer. Temporal does not say since when: the first look that sees a pause stamps it. Workers that
 * look at the same moment note the same. @throws BackendUnreachable
 */
export async function noteSchedulePause({ temporal, cache, clock }: Framework): Promise<void> {
  const [pause, noted] = await Promise.all([temporal.dispatchPause(), findSchedulePause({ cache })])
  if (pause === null) {
    if (noted !== null) await cache.delete(KEY)
    return
  }
  if (noted?.id === pause.id && noted.note === pause.note) return
  const since = noted?.id === pause.id ? noted.since : clock.now()
  await cache.set(KEY, { ...pause, since: since.toISOString() }, null)
}
