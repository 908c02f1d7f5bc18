/** A point of the curve of integrations: deliveries that go to that many of them, drawn at random. */
import { foldFigures } from '../all/fold.ts'
import type { BenchOptions, Outcome } from '../frame.ts'
import { startProcesses } from '../webhooks/processes.ts'
import { createIntegrations, roundsOfDeliveries } from './deliveries.ts'

const ROUNDS = 3

export async function benchIntegrations({ quick, rounds, size = 1, say }: BenchOptions): Promise<Outcome> {
  const lengths = { rounds: 1, seconds: 1, backlog: 0, idleDeliveries: 0 }
  const processes = await startProcesses(lengths, say, 'none', true)
  try {
    const stage = await processes.startWorkers()
    const integrations = await createIntegrations(stage, size)
    const measured = await roundsOfDeliveries(stage, integrations, { quick, rounds: rounds ?? ROUNDS })
    return { figures: foldFigures(measured), comparisons: [] }
  } finally {
    await processes.stop()
  }
}
