/**
 * vitest globalSetup: one Temporal dev server for the run, in memory and without a UI. Tests read its address with
 * `inject('temporalAddress')`; each takes workflow ids and task queues of its own.
 *
 * `TEMPORAL_ADDRESS` names a server that is there already. Several projects of one run share the server: all global setups
 * run in vitest's main process.
 */
import type { TestProject } from 'vitest/node'
import type { TemporalServer } from '../../src/temporal/server.ts'
import { findOrStartTemporalServer } from '../../src/temporal/server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** host:port of the run's Temporal server. */
    temporalAddress: string
  }
}

/** Setup files are loaded once for each project, so a variable of this module would not be shared. */
const SHARED = Symbol.for('durable-integrations.test.temporal')
type Shared = { users: number; server: Promise<TemporalServer> }
const registry = globalThis as { [SHARED]?: Shared }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await shareDevServer()
  project.provide('temporalAddress', server.address)
  return server.release
}

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
