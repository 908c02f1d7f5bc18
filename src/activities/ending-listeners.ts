/**
 * Listeners of framework events that activities tell. What a host's code takes too long for does not hold up its worker's end:
 * the listener is not waited for any more. Rule: docs/behaviour/workers.md, "The end of a worker".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import type { EventName, IntegrationEvents } from '../events/events.ts'
import type { Framework } from '../framework.ts'
import { untilAborted } from '../operations/until-aborted.ts'
import { Ending } from './ending.ts'
import type { Surroundings } from './surroundings.ts'
import { temporalSurroundings } from './surroundings.ts'

interface Telling {
  /** Aborted when what still runs is given up. */
  readonly enough: AbortSignal
  readonly isToldAgain: boolean
}

const telling = new AsyncLocalStorage<Telling>()

interface TellsUntilEnd {
  readonly surroundings?: () => Surroundings
  /**
   * Another worker tells all of it again: then the activity ends with the listener that is given up. Else what it tells of is
   * stored as told, so it goes on to its end, and each listener is called once. Default false.
   */
  readonly isToldAgain?: boolean
}

/** The same activity, bound to a framework of {@link withEndingListeners}. */
export function tellingUntilEnd<Input extends unknown[], Output>(
  activity: (...input: Input) => Promise<Output>,
  { surroundings = temporalSurroundings, isToldAgain = false }: TellsUntilEnd = {},
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    const { cancellationSignal, graceIsOver } = surroundings()
    const ending = new Ending(cancellationSignal, graceIsOver)
    try {
      return await telling.run({ enough: ending.signal, isToldAgain }, () => activity(...input))
    } finally {
      ending.release()
    }
  }
}

/** The same framework, whose listeners are not waited for at the end of an activity that {@link tellingUntilEnd} has made. */
export function withEndingListeners(framework: Framework): Framework {
  const { listeners, logger } = framework
  async function emit<Name extends EventName>(name: Name, payload: IntegrationEvents[Name]): Promise<void> {
    const current = telling.getStore()
    if (current === undefined) return listeners.emit(name, payload)
    const { enough, isToldAgain } = current
    if (isToldAgain) enough.throwIfAborted()
    const told = listeners.emit(name, payload)
    // Time is up: whoever answers at once is heard out.
    if (enough.aborted) return await Promise.race([told, turn()])
    try {
      await untilAborted(told, enough)
    } catch (error) {
      if (!enough.aborted) throw error
      const { id: integration, provider } = payload.integration
      logger.warn(
        { event: 'listener.given_up', integration, provider, name, told_again: isToldAgain },
        'a listener had not ended when its worker had to; it is not waited for',
      )
      if (isToldAgain) throw error
    }
  }
  const ending = new Proxy(listeners, {
    get(target, key) {
      if (key === 'emit') return emit
      const value: unknown = Reflect.get(target, key)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  return { ...framework, listeners: ending }
}
