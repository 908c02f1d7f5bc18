/**
 * Which handlers ran again, and which ran beside themselves, by the host's own notes; each is explained by a fault of the story, or
 * it is a fault of ours.
 *
 * Rule: docs/behaviour/webhooks.md, "Claims".
 */
import { z } from 'zod'
import type { Happened } from './inbox-faults.ts'
import { isWayToPostgres } from './inbox-faults.ts'
import type { InboxStack } from './inbox-stack.ts'

/**
 * A worker says that it lives every 5 s, for the next 20 s: one that is silent for 15 s may be taken for dead. Two silences
 * with less than 5 s between them may be one.
 */
const LEASE_SECONDS = 20
const SAID_EVERY_SECONDS = 5
/** A run that ended is stored within this time, unless a fault keeps it from that. */
const STORED_WITHIN_MS = 5_000
/** A note is made a moment before, or after, what it tells of. */
const NOTED_MS = 250

export interface Run {
  readonly delivery_id: string
  readonly webhook: string
  readonly attempt: number
  readonly member: string
  readonly begunMs: number
  /** Null: its worker was killed. */
  readonly endedMs: number | null
  readonly was_aborted: boolean | null
}

export interface Accounted {
  readonly runs: number
  /** Of which a predecessor's worker had died. */
  readonly afterDeath: number
  /** Of which the predecessor's worker was silent for longer than its lease. */
  readonly afterSilence: number
  /** Of these: they ran while the predecessor stood still, or went on. */
  readonly beside: number
  /** Runs that woke up, or could write again, when their row was another one's, by what ended them. */
  readonly aborted: number
  readonly refused: number
  /** What no fault explains, a line each. Empty: all is well. */
  readonly faults: readonly string[]
}

export async function accountForRuns(
  stack: Pick<InboxStack, 'sql' | 'lines'>,
  story: readonly Happened[],
): Promise<Accounted> {
  const counts = await stack.sql<{ runs: number }[]>`select count(*)::int as runs from handler_runs`
  const rows = await stack.sql<(Omit<Run, 'begunMs' | 'endedMs'> & { begun: number; ended: number | null })[]>`
    select r.delivery_id, w.id as webhook, r.attempt, r.member, r.was_aborted,
      (extract(epoch from r.begun_at) * 1000)::float8 as begun, (extract(epoch from r.ended_at) * 1000)::float8 as ended
    from handler_runs r join integration_webhooks w on w.delivery_id = r.delivery_id
    where r.ended_at is null or r.delivery_id in (select delivery_id from handler_runs group by 1 having count(*) > 1)`
  const runs = rows.map(({ begun, ended, ...row }) => ({ ...row, begunMs: begun, endedMs: ended }))
  return { runs: counts[0]?.runs ?? 0, ...judgedRuns(runs, stack.lines, story) }
}

/** @param uncommonRuns all runs of deliveries that ran again, and those without an end */
export function judgedRuns(
  uncommonRuns: readonly Run[],
  lines: readonly string[],
  story: readonly Happened[],
): Omit<Accounted, 'runs'> {
  const byDelivery = new Map<string, Run[]>()
  // A worker that stands still between its claim and its note has the earlier attempt, and the later note.
  for (const run of uncommonRuns.toSorted((a, b) => a.attempt - b.attempt || a.begunMs - b.begunMs))
    byDelivery.set(run.delivery_id, [...(byDelivery.get(run.delivery_id) ?? []), run])
  const refusals = refusalsOf(lines)
  const tally = { afterDeath: 0, afterSilence: 0, beside: 0, aborted: 0, refused: 0 }
  const faults: string[] = []
  for (const runs of byDelivery.values())
    for (const [index, run] of runs.entries()) {
      const deathMs = deathAfter(story, run.member, run.begunMs)
      const storedMs = run.endedMs === null ? Number.POSITIVE_INFINITY : storedBy(story, run.member, run.endedMs)
      if (run.endedMs === null && deathMs === null) faults.push(`no end, and its worker was not killed: ${line(run)}`)
      for (const later of runs.slice(index + 1)) {
        const endMs = run.endedMs ?? deathMs ?? Number.POSITIVE_INFINITY
        const isBeside = later.begunMs < endMs - NOTED_MS
        const hasDied = deathMs !== null && deathMs < Math.min(later.begunMs + NOTED_MS, storedMs)
        const fromMs = Math.min(run.begunMs, later.begunMs)
        const wasSilent = longestSilence(story, run.member, fromMs, later.begunMs) >= LEASE_SECONDS - SAID_EVERY_SECONDS
        if (isBeside ? !wasSilent : !(hasDied || wasSilent))
          faults.push(`${isBeside ? 'beside itself' : 'again'} without a reason: ${line(run)} and ${line(later)}`)
        if (later !== runs[index + 1]) continue
        if (isBeside) tally.beside += 1
        if (hasDied && !isBeside) tally.afterDeath += 1
        else tally.afterSilence += 1
      }
      if (index === runs.length - 1) continue
      // It lived on after its row was taken from it.
      if (run.endedMs === null || (deathMs !== null && deathMs < storedMs)) continue
      const isRefused = refusals.has(`${run.webhook}:${run.attempt}`)
      if (run.was_aborted === true) tally.aborted += 1
      else if (isRefused) tally.refused += 1
      else faults.push(`it lost its row, and was neither aborted nor refused: ${line(run)}`)
    }
  return { ...tally, faults }
}

/** When the process that began a run at this moment was gone. Null: it lives. */
export function deathAfter(story: readonly Happened[], member: string, begunMs: number): number | null {
  const end = story.find(({ fault, untilMs }) => {
    return (fault.kind === 'kill' || fault.kind === 'restart') && fault.target === member && untilMs >= begunMs
  })
  if (end === undefined) return null
  // One that is asked to end gives back what it has not done as soon as it is asked.
  return end.fault.kind === 'restart' ? Math.max(begunMs, end.fromMs) : end.untilMs
}

/** The longest time in which a worker can't have said that it lives, in seconds, of those that reach into this span. */
export function longestSilence(story: readonly Happened[], member: string, fromMs: number, untilMs: number): number {
  let longest = 0
  let span: { fromMs: number; untilMs: number } | null = null
  for (const silence of silencesOf(story, member)) {
    if (span !== null && silence.fromMs - span.untilMs < SAID_EVERY_SECONDS * 1_000)
      span = { fromMs: span.fromMs, untilMs: Math.max(span.untilMs, silence.untilMs) }
    else span = silence
    if (span.untilMs >= fromMs && span.fromMs <= untilMs)
      longest = Math.max(longest, Math.min(span.untilMs, untilMs) - span.fromMs)
  }
  return longest / 1_000
}

/** By when what ended at this moment is stored, or its worker is silent no longer and has had the time for it. */
function storedBy(story: readonly Happened[], member: string, endedMs: number): number {
  let byMs = endedMs + STORED_WITHIN_MS
  for (const { fromMs, untilMs } of silencesOf(story, member))
    if (untilMs >= endedMs && fromMs <= byMs) byMs = Math.max(byMs, untilMs + STORED_WITHIN_MS)
  return byMs
}

/** When a worker could not write to Postgres. */
export function silencesOf(story: readonly Happened[], member: string): Happened[] {
  return story.filter(({ fault }) => {
    if (isWayToPostgres(fault.target)) return true
    if (fault.target !== member) return false
    return fault.kind === 'freeze' || ('backend' in fault && fault.backend === 'postgres')
  })
}

const Line = z.object({ event: z.string(), webhook: z.number(), attempt: z.number() })

/** `<webhook>:<attempt>` of the settlements that were refused. */
function refusalsOf(lines: readonly string[]): Set<string> {
  const refusals = new Set<string>()
  for (const text of lines) {
    if (!text.includes('"webhook.superseded"') && !text.includes('"webhook.interrupted"')) continue
    const { webhook, attempt } = Line.parse(JSON.parse(text.slice(text.indexOf('{'))))
    refusals.add(`${webhook}:${attempt}`)
  }
  return refusals
}

function line({ delivery_id, webhook, attempt, member, begunMs, endedMs, was_aborted }: Run): string {
  const at = (ms: number | null): string => (ms === null ? 'no end' : new Date(ms).toISOString().slice(11, 23))
  const how = was_aborted === true ? ', aborted' : ''
  return `${delivery_id} (webhook ${webhook}) attempt ${attempt} on ${member} ${at(begunMs)} to ${at(endedMs)}${how}`
}
