/** What a bench might have printed. */
import { foldBench } from '../../bench/all/fold.ts'
import type { AllResults, GrowthResults } from '../../bench/all/results.ts'
import type { Figure, Printed } from '../../bench/frame.ts'

const figure = (name: string, value: number, unit = 'webhooks/s'): Figure => ({ name, value, unit })

/** @param ours, peer webhooks a second; the target is at least as many. @param idleMs of which 30 are allowed */
export function plantedRound(ours: number, peer: number, idleMs = 20): Printed {
  const [we, they, idle] = [figure('process: ours', ours), figure('process: peer', peer), figure('idle', idleMs, 'ms')]
  return {
    name: 'webhooks',
    machine: 'a machine',
    figures: [we, they, idle],
    targets: [
      {
        name: 'process: ours / process: peer, at least',
        value: ours / peer,
        goal: 1,
        met: ours >= peer,
        direction: 'at least',
        by: 'ratio',
        figure: we,
        peer: they,
      },
      {
        name: 'idle, at most',
        value: idleMs,
        goal: 30,
        met: idleMs <= 30,
        direction: 'at most',
        by: 'itself',
        figure: idle,
        peer: null,
      },
    ],
  }
}

const HEAD = {
  startedAt: '2026-11-26T20:00:12.000Z',
  endedAt: '2026-11-26T22:31:40.000Z',
  machine: '2 x a processor',
  of: '3 rounds, src 1234567',
  rounds: 3,
  quick: false,
}

const ran = (printed: Printed) => ({ printed, seconds: 60, load: 0.25 })

/** Ours is slower than its peer, which a repeat does not change. */
export const PLANTED_ALL: AllResults = {
  ...HEAD,
  benches: [
    foldBench(
      [plantedRound(90, 100), plantedRound(80, 100), plantedRound(70, 100)].map(ran),
      [plantedRound(85, 100), plantedRound(95, 100), plantedRound(99, 100)].map(ran),
    ),
  ],
}

export const PLANTED_GROWTH: GrowthResults = {
  ...HEAD,
  curves: [
    {
      name: 'growth-items',
      points: [1_000, 10_000, 100_000].map((size, at) => ({
        ...foldBench([
          ran({
            name: 'growth-items',
            machine: 'a machine',
            figures: [figure('throughput', 4_000 - 100 * at, 'items/s'), figure('statements', 0.5, 'per <item>')],
            targets: [],
          }),
        ]),
        size,
      })),
    },
  ],
}
