/**
 * A Temporal dev server for the tests of one file, in memory and without a UI; each test takes workflow ids and task queues
 * of its own. `TEMPORAL_ADDRESS` names a server that is there already.
 */
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { findOrStartTemporalServer } from '../../dev/temporal-server.ts'

/** A variable of this module would not be shared by its copies in one process. */
const SHARED = Symbol.for('durable-integrations.test.temporal')
type Shared = { users: number; server: Promise<TemporalServer> }
const registry = globalThis as { [SHARED]?: Shared }

/** The run's server, started by the first caller in this process and stopped when the last one has released it. */
export async function shareDevServer(): Promise<{ address: string; release(): Promise<void> }> {
  registry[SHARED] ??= {
    users: 0,
    // A preferred port of 0 is a free one: 7233 may belong to an `npm start` on the same machine.
    server: findOrStartTemporalServer({ port: 0, uiPort: null, log: logErrors }),
  }
  const shared = registry[SHARED]
  shared.users++
  const { address, stop } = await shared.server
  return {
    address,
    async release() {
      if (--shared.users > 0) return
      delete registry[SHARED]
      await stop()
    },
  }
}

function logErrors(line: string): void {
  if (process.env.TEST_SERVER_LOGS || line.includes('building the Temporal') || line.includes('downloading')) {
    process.stderr.write(`temporal: ${line}\n`)
  }
}
