/** Searches for each planted bug from the first seed on, shrinks it and runs the test file that keeps it; prints seeds and seconds. */
import { describe, expect, it } from 'vitest'
import { search } from '../../../src/testing/simulation/seed-search.ts'
import { chargingHost } from './charging-host.ts'
import { deliveredMirror, mirrored, syncedMirror } from './mirror-host.ts'
import { PLANTED_BUGS } from './planted-bugs.ts'
import { queuedHost } from './queued-host.ts'

const TWO_MINUTES = 120
/** More than are played in two minutes. */
const SEEDS = 5_000

describe('the search', () => {
  it.each(PLANTED_BUGS)('finds $name within two minutes', async ({ name, host, invariant }) => {
    const startedAt = performance.now()
    const { failure, seeds } = await search(host, { seeds: SEEDS, signal: AbortSignal.timeout(TWO_MINUTES * 1_000) })
    const seconds = (performance.now() - startedAt) / 1_000
    const steps = failure?.plan.steps.length
    console.log(
      `${name}: seed ${failure?.seed ?? 'none'} of ${seeds}, ${seconds.toFixed(1)} s, shrunk to ${steps} steps`,
    )
    expect(failure?.played.broken.map((broken) => broken.name)).toContain(invariant)
    expect(seconds).toBeLessThan(TWO_MINUTES)
  })
})

describe('the mended hosts', () => {
  it.each([
    ['synced mirror', syncedMirror()],
    ['delivered mirror', deliveredMirror()],
    ['mirror by both', mirrored()],
    ['charging host', chargingHost()],
    ['queued host', queuedHost()],
  ] as const)('%s survives 1,000 seeds', async (name, host) => {
    const cpu = process.cpuUsage()
    const { seeds, seconds, failure } = await search(host, { seeds: 1_000 })
    const { user, system } = process.cpuUsage(cpu)
    const cpuSeconds = (user + system) / 1_000_000
    console.log(
      `${name}: ${seeds} seeds in ${seconds.toFixed(1)} s (${(seeds / seconds).toFixed(1)} a second, ${(seeds / cpuSeconds).toFixed(1)} a second of one core)`,
    )
    expect(failure?.played.story ?? []).toEqual([])
    expect(seeds).toBe(1_000)
  })
})
