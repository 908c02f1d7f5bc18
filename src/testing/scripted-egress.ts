/** The framework's way out, which ends at a scripted transport instead of a socket. Rule: docs/testing.md, "Scripted transport". */
import type { Framework } from '../framework.ts'
import type { Transport } from './transport.ts'

type Egress = Framework['egress']

/** @param real closed with the framework: it opens a connection only for who asks it */
export function scriptedEgress(transport: Pick<Transport, 'fetch'>, real: Egress): Egress {
  return {
    fetch:
      ({ signal: ownSignal } = {}) =>
      (input, init) => {
        const signals = [ownSignal, init?.signal].filter((signal) => signal !== null && signal !== undefined)
        return transport.fetch(input, signals.length === 0 ? init : { ...init, signal: AbortSignal.any(signals) })
      },
    close: () => real.close(),
  }
}
