/**
 * vitest globalSetup: one Temporal dev server for the files of a run, which ask for it by `shareDevServer()` (dev-server.ts). Files of
 * a project without it start one of their own.
 */
import type { TestProject } from 'vitest/node'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { findOrStartTemporalServer } from '../../dev/temporal-server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** host:port of the run's Temporal dev server. */
    devServer: string
  }
}

/** Setup files are loaded once for each project, so a variable of this module would not be shared. */
const SHARED = Symbol.for('durable-integrations.test.dev-server')
type Shared = { users: number; server: Promise<TemporalServer> }
const registry = globalThis as { [SHARED]?: Shared }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  registry[SHARED] ??= { users: 0, server: startDevServer() }
  const shared = registry[SHARED]
  shared.users++
  const { address, stop } = await shared.server
  project.provide('devServer', address)
  return async () => {
    if (--shared.users > 0) return
    delete registry[SHARED]
    await stop()
  }
}

/** In memory and without a UI. */
export function startDevServer(): Promise<TemporalServer> {
  // A preferred port of 0 is a free one: 7233 may belong to an `npm start` on the same machine.
  return findOrStartTemporalServer({ port: 0, uiPort: null, log: logErrors })
}

function logErrors(line: string): void {
  if (process.env.TEST_SERVER_LOGS || line.includes('building the Temporal') || line.includes('downloading')) {
    process.stderr.write(`temporal: ${line}\n`)
  }
}
