/**
 * Makes what code reads of the machine follow from the plan: `Date`, `Math.random()`. And notes timers, so that those of a
 * dead process never fire.
 */
import type { ManualClock } from '../manual-clock.ts'
import { ManualClock as Manual } from '../manual-clock.ts'
import type { Random } from './random.ts'

/** A clock that moves on where code waits. */
export class SimulatedClock extends Manual {
  async wait(ms: number): Promise<void> {
    this.advance(ms / 1_000)
  }
}

export interface VirtualTime {
  /** Where `Math.random()` takes its numbers from. */
  random: Random
  /** Stops all timers that were set since the last call. */
  stopTimers(): void
}

/** The machine's globals can be replaced once: simulations of a process run one after the other. */
let last: Promise<unknown> = Promise.resolve()

/** Runs the work with the clock in the place of the machine's. Another simulation of this process waits for its end. */
export function inVirtualTime<T>(
  clock: ManualClock,
  random: Random,
  work: (time: VirtualTime) => Promise<T>,
): Promise<T> {
  const run = async (): Promise<T> => {
    const real = {
      date: globalThis.Date,
      random: Math.random,
      setTimeout: globalThis.setTimeout,
      setInterval: globalThis.setInterval,
    }
    const timers = new Set<NodeJS.Timeout>()
    const noted = <Set extends typeof globalThis.setTimeout | typeof globalThis.setInterval>(set: Set): Set =>
      new Proxy(set, {
        apply(target, self, given) {
          const timer = Reflect.apply(target, self, given) as NodeJS.Timeout
          timers.add(timer)
          return timer
        },
      })
    const time: VirtualTime = {
      random,
      stopTimers() {
        for (const timer of timers) clearTimeout(timer)
        timers.clear()
      },
    }
    globalThis.Date = dateBy(clock)
    Math.random = () => time.random.next()
    globalThis.setTimeout = noted(real.setTimeout)
    globalThis.setInterval = noted(real.setInterval)
    try {
      return await work(time)
    } finally {
      time.stopTimers()
      globalThis.Date = real.date
      Math.random = real.random
      globalThis.setTimeout = real.setTimeout
      globalThis.setInterval = real.setInterval
    }
  }
  const turn = last.then(run, run)
  last = turn.catch(() => {})
  return turn
}

/** `Date`, of which "now" is the clock's. All else, `instanceof` too, is the machine's own. */
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
