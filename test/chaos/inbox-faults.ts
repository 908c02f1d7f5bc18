/** What happens to a stack of the inbox's proofs, drawn from a seed, and the story of it: which fault, on what, from when to when. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { CuttingProxy } from '../support/cutting-proxy.ts'
import type { Backend } from './inbox-stack.ts'
import type { KeptProcess } from './kept-process.ts'

/** What faults happen to. */
export interface FaultyStack {
  partOf(target: string): KeptProcess
  linkOf(target: string, backend: Backend): CuttingProxy
  /** Ends when Postgres answers by the way that the processes take. */
  postgresAnswers(): Promise<void>
  /** How far off the clock of a process is from now on, in seconds. Not there: no process has a clock of its own. */
  setClock?(target: string, seconds: number): Promise<void>
  /** Leaves Postgres no free byte until the returned function is called. Not there: its disk can't be filled. */
  fillDisk?(): Promise<() => Promise<void>>
}

export type Fault =
  /** `kill -9`. */
  | { readonly kind: 'kill'; readonly target: string }
  /** SIGSTOP, and SIGCONT after so long. */
  | { readonly kind: 'freeze'; readonly target: string; readonly seconds: number }
  /** All of a worker's links to a backend end, and new ones are refused for so long. */
  | { readonly kind: 'cut'; readonly target: string; readonly backend: Backend; readonly seconds: number }
  /** Nothing passes; what was sent meanwhile comes late. */
  | { readonly kind: 'hold up'; readonly target: string; readonly backend: Backend; readonly seconds: number }
  /** All that passes comes late. */
  | {
      readonly kind: 'slow down'
      readonly target: string
      readonly backend: Backend
      readonly seconds: number
      readonly lateMs: number
    }
  /** The clock of a process jumps, and back after so long. */
  | { readonly kind: 'jump'; readonly target: string; readonly seconds: number; readonly bySeconds: number }
  /** No byte is free on the disk of Postgres. */
  | { readonly kind: 'fill'; readonly target: string; readonly seconds: number }
  /** A process is asked to end, as a deployment does. Nothing draws it: whoever deploys tells of it. */
  | { readonly kind: 'restart'; readonly target: string }

/** Without one of them no process reaches Postgres. */
export const isWayToPostgres = (target: string): boolean => target === 'postgres' || target === 'pgbouncer'
const BACKENDS = new Set(['postgres', 'pgbouncer', 'temporal'])

export interface Happened {
  readonly fault: Fault
  /** By the machine's clock, in milliseconds since 1970: the clock of its Postgres, too. */
  readonly fromMs: number
  readonly untilMs: number
}

/** Of 20. Deaths and silences come to about the same number. */
const KINDS: readonly [times: number, draw: (random: () => number, worker: string) => Fault][] = [
  [4, (_, target) => ({ kind: 'kill', target })],
  [3, () => ({ kind: 'kill', target: 'api' })],
  [1, () => ({ kind: 'kill', target: 'postgres' })],
  [1, () => ({ kind: 'kill', target: 'temporal' })],
  [4, (random, target) => ({ kind: 'freeze', target, seconds: between(random, 8, 30) })],
  [2, (random, target) => ({ kind: 'cut', target, backend: 'postgres', seconds: between(random, 0, 25) })],
  [2, (random, target) => ({ kind: 'cut', target, backend: 'temporal', seconds: between(random, 0, 25) })],
  [2, (random, target) => ({ kind: 'hold up', target, backend: 'postgres', seconds: between(random, 2, 30) })],
  [1, (random, target) => ({ kind: 'hold up', target, backend: 'temporal', seconds: between(random, 2, 30) })],
]

/** With a pooler each fault of so many is its death, and the first one the third. The same seed draws the others as without one. */
const POOLER_DIES = { every: 6, first: 2 }

export interface Plan {
  readonly faults: readonly (Fault & { readonly afterMs: number })[]
}

/** So many faults over so long; the waits between them are between zero and twice their mean. */
export function drawFaults(
  random: () => number,
  {
    count,
    seconds,
    workers,
    hasPooler,
  }: { count: number; seconds: number; workers: readonly string[]; hasPooler: boolean },
): Plan {
  const deck = KINDS.flatMap(([times, draw]) => Array.from({ length: times }, () => draw))
  const meanGapMs = (seconds * 1_000) / count
  const faults = Array.from({ length: count }, (_, index) => {
    const draw = deck[Math.floor(random() * deck.length)] as (typeof deck)[number]
    const worker = workers[Math.floor(random() * workers.length)] as string
    const drawn = draw(random, worker)
    const afterMs = Math.round(random() * 2 * meanGapMs)
    const isPoolers = hasPooler && index % POOLER_DIES.every === POOLER_DIES.first
    return isPoolers ? { kind: 'kill' as const, target: 'pgbouncer', afterMs } : { ...drawn, afterMs }
  })
  return { faults }
}

/** Ends when the last fault is over. Faults run beside each other; two of one kind on the same thing follow each other. */
export async function carryOutFaults(stack: FaultyStack, { faults }: Plan): Promise<Happened[]> {
  const story: Happened[] = []
  const underWay = new Map<string, Promise<void>>()
  for (const { afterMs, ...fault } of faults) {
    await sleep(afterMs)
    const thing = 'backend' in fault ? `${fault.target} to ${fault.backend}` : `${fault.kind} ${fault.target}`
    const before = underWay.get(thing) ?? Promise.resolve()
    const now = before.then(async () => {
      story.push(await happen(stack, fault as Fault))
    })
    // Awaited with all others; until then a rejection is not to count as unhandled.
    now.catch(() => {})
    underWay.set(thing, now)
  }
  await Promise.all(underWay.values())
  return story.sort((a, b) => a.fromMs - b.fromMs)
}

export async function happen(stack: FaultyStack, fault: Fault): Promise<Happened> {
  const part = stack.partOf(fault.target)
  // A freeze waits until there is somebody to be stopped, be it ready or about to be.
  if (fault.kind === 'freeze') await part.started()
  const fromMs = Date.now()
  switch (fault.kind) {
    case 'kill':
      await part.kill()
      // For those who need a backend it is away until it serves again, and PgBouncer has noticed.
      if (BACKENDS.has(fault.target)) await part.ready()
      if (isWayToPostgres(fault.target)) await stack.postgresAnswers()
      break
    case 'freeze':
      await part.freeze(fault.seconds)
      break
    case 'restart':
      await part.terminate()
      break
    case 'jump':
      await needed(stack.setClock, fault)(fault.target, fault.bySeconds)
      await sleep(fault.seconds * 1_000)
      await needed(stack.setClock, fault)(fault.target, 0)
      break
    case 'fill': {
      const free = await needed(stack.fillDisk, fault)()
      await sleep(fault.seconds * 1_000)
      await free()
      // It may have died of it, and its recovery takes a while.
      await stack.postgresAnswers()
      break
    }
    default: {
      const restore = holdBack(stack.linkOf(fault.target, fault.backend), fault)
      await sleep(fault.seconds * 1_000)
      restore()
    }
  }
  return { fault, fromMs, untilMs: Date.now() }
}

export function told(story: readonly Happened[]): string {
  const startedAt = story[0]?.fromMs ?? 0
  const seconds = (ms: number): string => (ms / 1_000).toFixed(1)
  return story
    .map(({ fault, fromMs, untilMs }) => {
      const what = 'backend' in fault ? `${fault.target}-${fault.backend}` : fault.target
      return `${seconds(fromMs - startedAt)} s ${fault.kind} ${what} (${seconds(untilMs - fromMs)} s)`
    })
    .join(', ')
}

function holdBack(link: CuttingProxy, fault: Extract<Fault, { readonly backend: Backend }>): () => void {
  if (fault.kind === 'slow down') return link.slowDown(fault.lateMs)
  return fault.kind === 'cut' ? link.refuse() : link.holdUp()
}

function needed<T>(ability: T | undefined, { kind, target }: Fault): T {
  if (ability === undefined) throw new Error(`this stack can't do ${kind} to ${target}`)
  return ability
}

/** Of a tenth of a second. */
function between(random: () => number, from: number, to: number): number {
  return Math.round((from + random() * (to - from)) * 10) / 10
}
