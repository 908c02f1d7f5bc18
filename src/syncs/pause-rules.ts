/** Whether a sync is paused, by what the audit says. Rule: docs/behaviour/syncs.md, "Pause and resume". */

export interface SyncPause {
  /** Name of the token, or `cli:<user>`. */
  readonly by: string
  readonly since: Date
}

/** Such as `by cli:ada since 2026-01-31T08:00:00.000Z`; null: not paused. */
export const pauseText = (pause: SyncPause | null): string | null =>
  pause === null ? null : `by ${pause.by} since ${pause.since.toISOString()}`

/** A `pause`, or what ends one: `resume`, `cancel`, `cursor set`, `cursor reset`, `erase`. Of one stream, or of all (null). */
export interface PauseAct {
  readonly verb: string
  readonly stream: string | null
  readonly by: string
  readonly at: Date
  /** A run of it has begun since, so nothing holds it. Of all: a run of any. */
  readonly hasRunSince: boolean
  /** Of an act on all, those streams asked about that it holds no more. */
  readonly streamsRunSince: readonly string[]
}

/** A pause of the Schedule that starts the due syncs of all integrations. */
export interface SchedulePause {
  /** The Schedule's id in Temporal. */
  readonly id: string
  /** What Temporal was told with it, such as `Paused via CLI`; null: nothing. */
  readonly note: string | null
  /** When a worker saw it first, at most half a minute after it began. */
  readonly since: Date
}

export function schedulePauseText({ id, note }: Pick<SchedulePause, 'id' | 'note'>): string {
  return `the Schedule ${id} is paused in Temporal${note === null ? '' : ` ("${note}")`}`
}

/** Null: not paused. @param acts newest first. @param stream null: all of them, or the one sync */
export function pauseOf(acts: readonly PauseAct[], stream: string | null = null): SyncPause | null {
  const act = acts.find((each) => each.stream === null || each.stream === stream)
  if (act === undefined || act.verb !== 'pause') return null
  const hasRunSince = stream === act.stream ? act.hasRunSince : act.streamsRunSince.includes(stream ?? '')
  return hasRunSince ? null : { by: act.by, since: act.at }
}
