/** Pauses that last, as lines of a life. Rule: docs/behaviour/explain.md, "The life of a record". */
import type { Framework } from '../framework/context.ts'
import { declaredStreams } from '../syncs/due.ts'
import { pauseOf, schedulePauseText } from '../syncs/pause-rules.ts'
import { findSchedulePause, pauseActs } from '../syncs/standing-queries.ts'
import type { LifeLine } from './life-lines.ts'
import { line, short } from './life-lines.ts'

/** Of all syncs of an integration, of its streams, and of the Schedule that starts them. */
export async function pausesOfIntegration(
  framework: Framework,
  { id, provider }: { readonly id: number; readonly provider: string },
): Promise<LifeLine[]> {
  const { db, tables } = framework
  const streams = declaredStreams(framework).flatMap((each) => (each.provider === provider ? [each.stream] : []))
  const [acts, schedule] = await Promise.all([pauseActs(db, tables, [id], streams), findSchedulePause(framework)])
  const own = acts.get(id) ?? []
  const whole = pauseOf(own)
  return [
    ...(whole === null ? [] : line(whole.since, `its syncs are paused since then, by ${whole.by}`)),
    ...streams.flatMap((stream) => {
      const pause = pauseOf(own, stream)
      if (pause === null || pause.since === whole?.since) return []
      return line(pause.since, `its stream ${short(stream)} is paused since then, by ${pause.by}`)
    }),
    ...(schedule === null
      ? []
      : line(schedule.since, `no sync of any integration begins by itself since then: ${schedulePauseText(schedule)}`)),
  ]
}

/** Of a run under way. */
export async function pauseOfRun(
  { db, tables }: Framework,
  { integrationId, stream }: { readonly integrationId: number; readonly stream: string | null },
): Promise<LifeLine[]> {
  const acts = await pauseActs(db, tables, [integrationId], stream === null ? [] : [stream])
  const pause = pauseOf(acts.get(integrationId) ?? [], stream)
  return pause === null ? [] : line(pause.since, `paused since then, by ${pause.by}`)
}
