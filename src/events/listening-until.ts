/**
 * How long listeners of framework events are waited for: each one to its end, or, inside an activity, until its worker has to end, or,
 * inside a dispatch, for 30 s. They are called all the same.
 * Rules: docs/behaviour/workers.md, "The end of a worker"; docs/behaviour/sync-scheduling.md, "Dispatch".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as turn } from 'node:timers/promises'

interface Listening {
  /** Aborted when what still runs is given up. */
  readonly enough: AbortSignal
  /** Of work that tells all of its events again; aborted with the first listener that is given up. */
  readonly again: AbortController | null
}

/** `told again`: it was given up, and hears of the event once more. */
export type Hearing = 'ended' | 'given up' | 'told again'

/** Of all that one step of a dispatch tells. The next dispatch waits for it: no sync of any integration begins meanwhile. */
const DISPATCH_LISTENING_MS = 30_000

const listening = new AsyncLocalStorage<Listening>()

/** Work whose events' listeners are waited for until `enough` is aborted, each for itself. */
export function listeningUntil<T>(enough: AbortSignal, work: () => Promise<T>): Promise<T> {
  return listening.run({ enough, again: null }, work)
}

/** Work of a dispatch: its events' listeners are waited for 30 s, all together. */
export async function listeningBriefly<T>(work: () => Promise<T>): Promise<T> {
  const timeUp = new AbortController()
  const timer = setTimeout(() => timeUp.abort(), DISPATCH_LISTENING_MS)
  const current = listening.getStore()
  const enough = current === undefined ? timeUp.signal : AbortSignal.any([current.enough, timeUp.signal])
  try {
    return await listening.run({ enough, again: null }, work)
  } finally {
    clearTimeout(timer)
  }
}

/** Work that tells all of its events again when `givenUp` was aborted, which a listener that is given up does, with the reason. */
export function tellingAgain<T>(givenUp: AbortController, work: () => Promise<T>): Promise<T> {
  const current = listening.getStore()
  return current === undefined ? work() : listening.run({ ...current, again: givenUp }, work)
}

/**
 * Waits for one listener.
 *
 * @param told the end of its call; never rejects
 */
export async function hearing(told: Promise<void>): Promise<Hearing> {
  const current = listening.getStore()
  if (current === undefined || (await endsInTime(told, current.enough))) {
    await told
    return 'ended'
  }
  const { again, enough } = current
  again?.abort(enough.reason)
  return again === null ? 'given up' : 'told again'
}

/** Once time is up, a listener that ends at once still counts as ended. */
function endsInTime(told: Promise<void>, enough: AbortSignal): Promise<boolean> {
  const ended = told.then(() => true)
  if (enough.aborted) return Promise.race([ended, turn(false)])
  return new Promise((resolve) => {
    const giveUp = (): void => resolve(false)
    enough.addEventListener('abort', giveUp, { once: true })
    void ended.then((inTime) => {
      enough.removeEventListener('abort', giveUp)
      resolve(inTime)
    })
  })
}
