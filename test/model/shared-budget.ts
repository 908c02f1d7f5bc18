/**
 * A model of a budget that many integrations share. The product decides in SQL (drizzle/functions/take_shared.sql);
 * shared-budget.pg.test.ts compares the two.
 *
 * Rule: docs/behaviour/shared-budgets.md.
 */
import type { SharedAnswer, SharedAsk, SharedState } from '../../src/calls/admission/shared-queries.ts'

const SILENT_MS = 15_000
const LINE_MS = 2_000
const SLOTS = 100

export const NO_BUDGET: SharedState = {
  at: 0,
  limit: 1,
  seconds: 1,
  ends: [],
  counts: [],
  held: {},
  lines: {},
  served: [],
  share: null,
  pacedUs: null,
  quietUntil: null,
  override: null,
}

export function takeShared(
  stored: SharedState,
  asked: SharedAsk,
  clockMs: number,
): { readonly next: SharedState; readonly answer: SharedAnswer } {
  const now = Math.max(clockMs, stored.at)
  const isOver = stored.override !== null && stored.override.until !== null && stored.override.until <= now
  const override = isOver ? null : stored.override
  const { limit, seconds } = override !== null && asked.obeysOverride ? override : asked
  const lengthMs = seconds * 1_000
  const { out: ownHeld } = asked
  const { held, freed } = outAfter(stored, asked, now)
  const window = slotsAfter(stored, freed, now, lengthMs)
  const used = sum(window.counts) + sum(Object.values(held).map(([units]) => units)) + ownHeld
  const lines = livingLines(stored, asked.process, now)
  const isQuiet = stored.quietUntil !== null && stored.quietUntil > now

  const stepUs = Math.ceil((lengthMs * 1_000) / limit)
  const creditUs = Math.max(stepUs, Math.min(1_000_000, lengthMs * 100))
  const baseUs = Math.max(stored.pacedUs ?? now * 1_000, now * 1_000 - creditUs)
  let free = isQuiet ? 0 : Math.max(0, limit - used)
  if (stored.pacedUs !== null) free = Math.min(free, Math.floor(Math.max(0, now * 1_000 - baseUs) / stepUs))

  const shares = shareOut(asked, Object.values(lines), { free, served: stored.served, share: stored.share })
  const ownWants = sum(asked.wants)
  const given = sum(shares.gave)
  const stay = asked.ids.filter((_, place) => (shares.left[place] ?? 0) > 0)
  if (given < ownWants) lines[asked.process] = { at: now, wants: ownWants - given, ids: stay }
  const waiting = new Set([...Object.values(lines).flatMap(({ ids }) => ids), ...stay]).size
  const more = waiting === 0 ? Math.min(asked.more, Math.floor((free - given) / 8)) : 0
  if (ownHeld + given + more > 0) held[asked.process] = [ownHeld + given + more, now]
  const pacedUs = waiting === 0 ? null : stored.pacedUs === null ? now * 1_000 : baseUs + given * stepUs
  let retryMs = 0
  if (pacedUs !== null) {
    retryMs = Math.trunc((pacedUs + stepUs - now * 1_000) / 1_000)
    if (limit - used - given <= 0) retryMs = window.ends[0] === undefined ? 0 : window.ends[0] + lengthMs - now
    if (isQuiet) retryMs = (stored.quietUntil ?? now) - now
  }
  return {
    next: {
      ...{ at: now, limit, seconds, ...window, held, lines, pacedUs, quietUntil: stored.quietUntil, override },
      served: waiting === 0 ? [] : shares.served,
      share: waiting === 0 ? null : shares.share,
    },
    answer: {
      ...{ gave: shares.gave, more, waiting, retryMs: Math.max(0, retryMs), used: used + given + more, limit, seconds },
      quietMs: isQuiet ? (stored.quietUntil ?? now) - now : null,
    },
  }
}

/** Units that processes have out. Those of a silent process count as back: it can use them no more. */
function outAfter(stored: SharedState, { process, done }: SharedAsk, now: number) {
  const held: Record<string, readonly [number, number]> = {}
  let freed = done
  for (const [name, [units, at]] of Object.entries(stored.held))
    if (name === process) continue
    else if (at + SILENT_MS <= now) freed += units
    else held[name] = [units, at]
  return { held, freed }
}

function slotsAfter(stored: SharedState, freed: number, now: number, lengthMs: number) {
  const slots = stored.ends
    .map((end, place) => ({ end, count: stored.counts[place] ?? 0 }))
    .filter(({ end }) => end + lengthMs > now)
  if (freed > 0) {
    const slotMs = Math.ceil(lengthMs / SLOTS)
    const last = slots.at(-1)
    const end = Math.max(Math.floor(now / slotMs) * slotMs + slotMs - 1, last?.end ?? 0)
    if (last?.end === end) last.count += freed
    else slots.push({ end, count: freed })
  }
  return { ends: slots.map(({ end }) => end), counts: slots.map(({ count }) => count) }
}

function livingLines({ lines }: SharedState, process: string, now: number) {
  const living = Object.entries(lines).filter(([name, { at }]) => name !== process && at + LINE_MS > now)
  return Object.fromEntries(living)
}

/** Round by round: a tenant that has had its share of a round gets more when all others have had theirs. */
function shareOut(
  { ids, wants }: SharedAsk,
  lines: readonly { readonly ids: readonly number[]; readonly wants: number }[],
  state: { readonly free: number; readonly served: readonly number[]; readonly share: number | null },
) {
  const gave = ids.map(() => 0)
  const left = [...wants]
  const theirs = new Set(lines.flatMap((line) => line.ids))
  let { free: units, share } = state
  let served = [...state.served]
  const give = (place: number, most: number): void => {
    const part = Math.min(left[place] ?? 0, most)
    gave[place] = (gave[place] ?? 0) + part
    left[place] = (left[place] ?? 0) - part
    units -= part
  }
  const places = (): number[] => [...ids.keys()].filter((place) => (left[place] ?? 0) > 0)
  if (units >= sum(wants) + sum(lines.map((line) => line.wants))) {
    for (const place of ids.keys()) give(place, units)
    return { gave, left, served, share }
  }
  while (units > 0 && places().length > 0) {
    const mine = places()
    const wanting = new Set(mine.map((place) => ids[place]))
    const turns = mine.filter((place) => !served.includes(ids[place] as number))
    const pending = [...theirs].filter((id) => !served.includes(id) && !wanting.has(id)).length
    if (share === null || (turns.length === 0 && pending === 0)) {
      served = []
      share = Math.max(1, Math.floor(units / new Set([...theirs, ...wanting]).size))
    } else if (turns.length > 0)
      for (const place of turns) {
        if (units === 0) break
        give(place, Math.min(share, units))
        served.push(ids[place] as number)
      }
    else {
      const reserved = pending * share
      if (units <= reserved) break
      const each = Math.max(1, Math.floor((units - reserved) / mine.length))
      for (const place of mine) if (units > reserved) give(place, Math.min(each, units - reserved))
    }
  }
  return { gave, left, served, share }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
