/**
 * Listeners of framework events that activities emit. A slow listener of the host does not hold up its worker's end: the worker stops
 * waiting for it. Rule: docs/behaviour/workers.md, "The end of a worker".
 */

import { Ending } from '../claims/ending.ts'
import { listeningUntil } from '../events/listening-until.ts'
import { temporalSurroundings } from './surroundings.ts'

/** The same activity. When its worker stops or it is cancelled, listeners of framework events have 30 s. */
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
