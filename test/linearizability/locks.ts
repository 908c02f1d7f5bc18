/** Locks of the cache: taken, held on to, given back, and left to run out. Rule: docs/behaviour/locks.md. */
import type { Subject } from './history.ts'
import type { Lane } from './lane.ts'
import { pick, rest } from './lane.ts'

const LOCKS_AT_ONCE = 2
const LIVES_MS = [30, 80, 400] as const

export async function lockOn(lane: Lane): Promise<void> {
  const { cache } = lane.framework
  while (!lane.isOver()) {
    const name = `${lane.round.integrations.plain}:${lane.slice()}:${Math.floor(lane.random() * LOCKS_AT_ONCE)}`
    const subject: Subject = { object: `lock:${name}`, model: 'lock' }
    const owner = lane.name()
    const ms = pick(lane, LIVES_MS)
    const did = (kind: string, work: () => Promise<boolean>): Promise<boolean> =>
      lane.history.record(subject, lane.client, { kind, owner, ms }, work, (done) => ({ done }))
    if (await did('acquire', () => cache.acquire(name, owner, ms / 1_000))) {
      for (let times = Math.floor(lane.random() * 3); times > 0; times -= 1) {
        // Often within its life, sometimes after it.
        await rest(lane, 1.5 * ms)
        await did('extend', () => cache.extend(name, owner, ms / 1_000))
      }
      await rest(lane, 1.5 * ms)
      if (lane.random() < 0.7) await did('release', () => cache.release(name, owner).then(() => true))
    } else await rest(lane, 10)
  }
}
