/**
 * A Temporal dev server for tests, in memory and without a UI: the run's, where the project has the global setup dev-server-setup.ts,
 * else one of the file's own. Each test takes workflow ids and task queues of its own. `TEMPORAL_ADDRESS` names a server that is there
 * already.
 */
import { inject } from 'vitest'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { startDevServer } from './dev-server-setup.ts'

/** A variable of this module would not be shared by its copies in one process. */
const SHARED = Symbol.for('durable-integrations.test.temporal')
type Shared = { users: number; server: Promise<TemporalServer> }
const registry = globalThis as { [SHARED]?: Shared }

export interface SharedServer {
  readonly address: string
  release(): Promise<void>
}

/** The run's server; without one, a server that the first caller in this process starts, and that the last one's release stops. */
export async function shareDevServer(): Promise<SharedServer> {
  const address = inject('devServer') as string | undefined
  return address === undefined ? shareOwnDevServer() : { address, release: async () => {} }
}

/** For a file that leaves Schedules behind, or looks at all that a server has. */
export async function shareOwnDevServer(): Promise<SharedServer> {
  registry[SHARED] ??= { users: 0, server: startDevServer() }
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
