/**
 * Listeners of framework events that activities tell. What a host's code takes too long for does not hold up its worker's end:
 * the listener is not waited for any more. Rule: docs/behaviour/workers.md, "The end of a worker".
 */

import { Ending } from '../claims/ending.ts'
import { listeningUntil } from '../events/listening-until.ts'
import { temporalSurroundings } from './surroundings.ts'

/** The same activity, whose listeners of framework events have 30 s when its worker stops, or it is cancelled. */
export function tellingUntilEnd<Input extends unknown[], Output>(
  activity: (...input: Input) => Promise<Output>,
  surroundings = temporalSurroundings,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    const { cancellationSignal, graceIsOver } = surroundings()
    const ending = new Ending(cancellationSignal, graceIsOver)
    try {
      return await listeningUntil(ending.signal, () => activity(...input))
    } finally {
      ending.release()
    }
  }
}
