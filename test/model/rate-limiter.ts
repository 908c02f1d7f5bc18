/**
 * A model of the rate limiter: whether a window still holds a call. The product decides in SQL (drizzle/functions/);
 * call-state.pg.test.ts compares the two.
 *
 * Rule: docs/behaviour/requests.md, "Rate limit".
 */
import type { Limit, WindowState } from '../../src/calls/admission/state-rules.ts'

export type LimiterVerdict =
  | { readonly kind: 'admitted'; readonly next: WindowState }
  | { readonly kind: 'refused'; readonly retryAfterMs: number }

/** A sliding window remembers at most so many slots; up to this limit each call has a millisecond of its own. */
const MAX_SLOTS = 1_024

/** How far behind the newest window or slot a clock may be and still count there, as after an ordinary correction. */
const SET_BACK_MS = 1_000

/**
 * The window as a clock sees it that was set back further: what was taken after its jump counts as taken now, so that nothing waits
 * for the moment to which it had jumped. Null or unlike the limit: as it was.
 */
export function movedBack(stored: WindowState | null, limit: Limit, now: number): WindowState | null {
  if (stored === null || stored.kind !== limit.window || stored.seconds !== limit.seconds) return stored
  const isAhead = (moment: number) => moment > now + SET_BACK_MS
  if (stored.kind === 'fixed') {
    const lengthMs = limit.seconds * 1_000
    const startsAt = Math.floor(now / lengthMs) * lengthMs
    return isAhead(stored.startsAt) ? { kind: 'fixed', seconds: stored.seconds, startsAt, count: stored.count } : stored
  }
  return stored.slots.some(isAhead) ? living(stored, limit, now) : stored
}

/** Takes one unit, if there is one. */
export function admitByLimit(stored: WindowState | null, limit: Limit, now: number): LimiterVerdict {
  const seen = movedBack(stored, limit, now)
  return limit.window === 'fixed' ? admitFixed(seen, limit, now) : admitSliding(seen, limit, now)
}

/** Windows start at multiples of their length since the epoch. */
function admitFixed(stored: WindowState | null, limit: Limit, now: number): LimiterVerdict {
  const [startsAt, count] = fixedCount(stored, limit, now)
  if (count >= limit.limit) return { kind: 'refused', retryAfterMs: startsAt + limit.seconds * 1_000 - now }
  return { kind: 'admitted', next: { kind: 'fixed', seconds: limit.seconds, startsAt, count: count + 1 } }
}

/** A clock that was set back a little stays in the window that it had reached: better a pause than a call too many. */
function fixedCount(stored: WindowState | null, { seconds }: Limit, now: number): readonly [number, number] {
  const lengthMs = seconds * 1_000
  const startsAt = Math.floor(now / lengthMs) * lengthMs
  const isSame = stored?.kind === 'fixed' && stored.seconds === seconds && stored.startsAt >= startsAt
  return isSame ? [stored.startsAt, stored.count] : [startsAt, 0]
}

function admitSliding(stored: WindowState | null, limit: Limit, now: number): LimiterVerdict {
  const window = living(stored, limit, now)
  const used = sum(window.counts)
  if (used >= limit.limit)
    return { kind: 'refused', retryAfterMs: untilFree(window, used - limit.limit + 1, limit, now) }
  const last = window.slots.length - 1
  // A clock that was set back a little adds to the newest slot: the slots stay in order, and the call leaves later, not earlier.
  const slot = Math.max(Math.floor(now / window.quantum) * window.quantum, window.slots[last] ?? 0)
  const next =
    window.slots[last] === slot
      ? { ...window, counts: [...window.counts.slice(0, -1), (window.counts[last] ?? 0) + 1] }
      : { ...window, slots: [...window.slots, slot], counts: [...window.counts, 1] }
  return { kind: 'admitted', next }
}

/** The slots whose last millisecond is still within the window. Under another quantum each moves to the slot of its end. */
function living(stored: WindowState | null, limit: Limit, now: number): Extract<WindowState, { kind: 'sliding' }> {
  const lengthMs = limit.seconds * 1_000
  const quantum = limit.limit <= MAX_SLOTS ? 1 : Math.ceil(lengthMs / MAX_SLOTS)
  const held = new Map<number, number>()
  if (stored?.kind === 'sliding' && stored.seconds === limit.seconds)
    for (const [index, start] of stored.slots.entries()) {
      const end = start + stored.quantum - 1
      if (end + lengthMs <= now) continue
      const kept = stored.quantum === quantum ? start : Math.floor(end / quantum) * quantum
      const slot = start > now + SET_BACK_MS ? Math.floor(now / quantum) * quantum : kept
      held.set(slot, (held.get(slot) ?? 0) + (stored.counts[index] ?? 0))
    }
  const slots = [...held.keys()].sort((a, b) => a - b)
  const counts = slots.map((slot) => held.get(slot) ?? 0)
  return { kind: 'sliding', seconds: limit.seconds, quantum, slots, counts }
}

function untilFree(
  window: Extract<WindowState, { kind: 'sliding' }>,
  units: number,
  limit: Limit,
  now: number,
): number {
  let left = 0
  for (const [index, slot] of window.slots.entries()) {
    left += window.counts[index] ?? 0
    if (left >= units) return slot + window.quantum - 1 + limit.seconds * 1_000 - now
  }
  return limit.seconds * 1_000
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
