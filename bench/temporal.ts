/** A Temporal server for one bench: the dev server, in memory, as `npm start` sets it. */
import type { TemporalServer } from '../src/temporal/server.ts'
import { startTemporalServer } from '../src/temporal/server.ts'
import { findTemporalBinary } from '../src/temporal/server-binary.ts'

export async function startBenchTemporal(): Promise<TemporalServer> {
  const binary = await findTemporalBinary({ log: (line) => console.error(line) })
  return startTemporalServer({ binary, port: 0, uiPort: null })
}
