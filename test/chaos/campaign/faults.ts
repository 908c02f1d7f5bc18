/** Which faults a campaign has, drawn from its seed. */
import type { Fault, Plan } from '../inbox-faults.ts'

/** As `--faults` names them. */
export const FAULT_KINDS = ['kill', 'stop', 'cut', 'slow', 'clock', 'disk'] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

export const APIS = ['api', 'api-2'] as const
export const WORKERS = ['worker', 'worker-2'] as const
const PROCESSES = [...APIS, ...WORKERS]
const JUMPS_SECONDS = [-3_600, -90, -10, 10, 90, 3_600]

type Draw = (random: () => number) => Fault

/** Before any comes again, each has come so many times. */
function deckOf(hasPooler: boolean): Readonly<Record<FaultKind, readonly (readonly [times: number, draw: Draw])[]>> {
  const pooler = hasPooler ? 1 : 0
  return {
    kill: [
      [3, (random) => ({ kind: 'kill', target: oneOf(random, WORKERS) })],
      [2, (random) => ({ kind: 'kill', target: oneOf(random, APIS) })],
      [1, () => ({ kind: 'kill', target: 'postgres' })],
      [1, () => ({ kind: 'kill', target: 'temporal' })],
      [pooler, () => ({ kind: 'kill', target: 'pgbouncer' })],
    ],
    stop: [
      [3, (random) => ({ kind: 'freeze', target: oneOf(random, WORKERS), seconds: between(random, 2, 28) })],
      [1, (random) => ({ kind: 'freeze', target: oneOf(random, APIS), seconds: between(random, 2, 15) })],
      [1, (random) => ({ kind: 'freeze', target: 'postgres', seconds: between(random, 1, 12) })],
      [1, (random) => ({ kind: 'freeze', target: 'temporal', seconds: between(random, 1, 15) })],
      [pooler, (random) => ({ kind: 'freeze', target: 'pgbouncer', seconds: between(random, 1, 8) })],
    ],
    cut: [
      [
        2,
        (random) => ({
          kind: 'cut',
          target: oneOf(random, PROCESSES),
          backend: 'postgres',
          seconds: between(random, 0, 20),
        }),
      ],
      [
        2,
        (random) => ({
          kind: 'cut',
          target: oneOf(random, PROCESSES),
          backend: 'temporal',
          seconds: between(random, 0, 20),
        }),
      ],
    ],
    slow: [
      [
        1,
        (random) => ({
          kind: 'hold up',
          target: oneOf(random, PROCESSES),
          backend: 'postgres',
          seconds: between(random, 2, 20),
        }),
      ],
      [
        1,
        (random) => ({
          kind: 'hold up',
          target: oneOf(random, PROCESSES),
          backend: 'temporal',
          seconds: between(random, 2, 20),
        }),
      ],
      [1, (random) => slowed(random, 'postgres')],
      [1, (random) => slowed(random, 'temporal')],
    ],
    clock: [
      [
        2,
        (random) => ({
          kind: 'jump',
          target: oneOf(random, PROCESSES),
          seconds: between(random, 5, 30),
          bySeconds: oneOf(random, JUMPS_SECONDS),
        }),
      ],
    ],
    disk: [[1, (random) => ({ kind: 'fill', target: 'postgres', seconds: between(random, 2, 8) })]],
  }
}

/** So many faults over so long; the waits between them are between zero and twice their mean. */
export function drawCampaign(
  random: () => number,
  {
    count,
    seconds,
    kinds,
    hasPooler,
  }: { count: number; seconds: number; kinds: readonly FaultKind[]; hasPooler: boolean },
): Plan {
  const all = deckOf(hasPooler)
  const deck = kinds.flatMap((kind) => all[kind].flatMap(([times, draw]) => Array.from({ length: times }, () => draw)))
  const meanGapMs = (seconds * 1_000) / count
  let left: Draw[] = []
  const faults = Array.from({ length: count }, () => {
    if (left.length === 0) left = [...deck]
    const [draw] = left.splice(Math.floor(random() * left.length), 1) as [Draw]
    return { ...draw(random), afterMs: Math.round(random() * 2 * meanGapMs) }
  })
  return { faults }
}

function slowed(random: () => number, backend: 'postgres' | 'temporal'): Fault {
  const target = oneOf(random, PROCESSES)
  return { kind: 'slow down', target, backend, seconds: between(random, 5, 20), lateMs: between(random, 5, 150) }
}

function oneOf<T>(random: () => number, choices: readonly T[]): T {
  return choices[Math.floor(random() * choices.length)] as T
}

/** Of a tenth. */
function between(random: () => number, from: number, to: number): number {
  return Math.round((from + random() * (to - from)) * 10) / 10
}
