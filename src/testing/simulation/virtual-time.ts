/**
 * Replaces `Date` and `Math.random()`, so that both follow from the plan. Notes the timers of `setTimeout()` and
 * `setInterval()`, so that those of a dead process never fire.
 */
import type { ManualClock } from '../manual-clock.ts'
import type { Random } from './random.ts'

export interface VirtualTime {
  /** Where `Math.random()` takes its numbers from. */
  random: Random
  /** Stops all timers that were set since the last call. */
  stopTimers(): void
}

interface Globals {
  readonly date: DateConstructor
  readonly random: () => number
  readonly setTimeout: typeof globalThis.setTimeout
  readonly setInterval: typeof globalThis.setInterval
}

const globals = (): Globals => ({
  date: globalThis.Date,
  random: Math.random,
  setTimeout: globalThis.setTimeout,
  setInterval: globalThis.setInterval,
})

/** The globals at the load of this module. What a timer of theirs calls sees them, too. */
const machine: Globals = (() => {
  const real = globals()
  const setTimeout = new Proxy(real.setTimeout, {
    apply: (target, self, [call, ...given]: [(...args: unknown[]) => void, ...unknown[]]) =>
      Reflect.apply(target, self, [(...args: unknown[]) => inRealTime(() => call(...args)), ...given]) as unknown,
  })
  return { ...real, setTimeout }
})()

/** The machine's globals can be replaced once: simulations of a process run one after the other. */
let last: Promise<unknown> = Promise.resolve()

/** Runs the work by the given clock instead of the machine's. Another simulation of this process waits for its end. */
export function inVirtualTime<T>(
  clock: ManualClock,
  random: Random,
  work: (time: VirtualTime) => Promise<T>,
): Promise<T> {
  return next(async () => {
    const timers = new Set<NodeJS.Timeout>()
    const time: VirtualTime = {
      random,
      stopTimers() {
        for (const timer of timers) clearTimeout(timer)
        timers.clear()
      },
    }
    const real = globals()
    const virtual = {
      date: dateBy(clock),
      random: () => time.random.next(),
      setTimeout: noting(real.setTimeout, timers),
      setInterval: noting(real.setInterval, timers),
    }
    return using(virtual, () => work(time)).finally(() => time.stopTimers())
  })
}

/** Starts the database: a timer of its own that fires within a simulation must not see it. */
export function inMachineTime<T>(work: () => Promise<T>): Promise<T> {
  return next(() => using(machine, work))
}

function next<T>(run: () => Promise<T>): Promise<T> {
  const turn = last.then(run, run)
  last = turn.catch(() => {})
  return turn
}

async function using<T>(given: Globals, work: () => Promise<T>): Promise<T> {
  const before = globals()
  use(given)
  try {
    return await work()
  } finally {
    use(before)
  }
}

/** Runs what must not see the simulation: the database's own code, which lives longer than one. */
export function inRealTime<T>(work: () => T): T {
  const virtual = globals()
  use(machine)
  try {
    return work()
  } finally {
    use(virtual)
  }
}

function use({ date, random, setTimeout, setInterval }: Globals): void {
  globalThis.Date = date
  Math.random = random
  globalThis.setTimeout = setTimeout
  globalThis.setInterval = setInterval
}

function noting<Set extends typeof globalThis.setTimeout | typeof globalThis.setInterval>(
  set: Set,
  timers: globalThis.Set<NodeJS.Timeout>,
): Set {
  return new Proxy(set, {
    apply(target, self, given) {
      const timer = Reflect.apply(target, self, given) as NodeJS.Timeout
      timers.add(timer)
      return timer
    },
  })
}

/** `Date` with the clock's "now". All else, `instanceof` too, is the machine's own. */
function dateBy(clock: ManualClock): DateConstructor {
  const real = globalThis.Date
  return new Proxy(real, {
    construct: (target, given, newTarget) =>
      Reflect.construct(target, given.length === 0 ? [clock.now().getTime()] : given, newTarget) as object,
    apply: () => clock.now().toString(),
    get: (target, name, receiver) =>
      name === 'now' ? () => clock.now().getTime() : Reflect.get(target, name, receiver),
  })
}
