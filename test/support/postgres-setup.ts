/**
 * vitest globalSetup: one embedded Postgres for the run, on a temp folder, deleted at the end. Tests take a database of their
 * own from it with `createTestDatabase()` (database.ts).
 *
 * `TEST_POSTGRES_URL` names a server that is there already (a superuser's URL). Several projects of one run share the server:
 * all global setups run in vitest's main process.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { newDataFolder } from './data-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the superuser on the run's Postgres. */
    postgresUrl: string
  }
}

/** What a crash would cost is the test run's data, so nothing is flushed. Never for real data. */
const FAST_AND_FORGETFUL = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '300',
  // A prepared transaction may hold a lock: lock-check.pg.test.ts.
  max_prepared_transactions: '2',
}

/** Setup files are loaded once for each project, so a variable of this module would not be shared. */
const SHARED = Symbol.for('durable-integrations.test.postgres')
type Server = { url: string; stop(): Promise<void> }
type Shared = { users: number; server: Promise<Server> }
const registry = globalThis as { [SHARED]?: Shared }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await sharePostgres()
  project.provide('postgresUrl', server.url)
  // The e2e files ask for a server themselves, in processes of their own: these inherit it.
  const given = process.env.TEST_POSTGRES_URL
  process.env.TEST_POSTGRES_URL = server.url
  return async () => {
    if (given === undefined) delete process.env.TEST_POSTGRES_URL
    await server.release()
  }
}

/** The run's server, started by the first caller in this process and stopped when the last one has released it. */
export async function sharePostgres(): Promise<{ url: string; release(): Promise<void> }> {
  registry[SHARED] ??= { users: 0, server: start() }
  const shared = registry[SHARED]
  shared.users++
  const { url, stop } = await shared.server
  return {
    url,
    async release() {
      if (--shared.users > 0) return
      delete registry[SHARED]
      await stop()
    },
  }
}

async function start(): Promise<Server> {
  const given = process.env.TEST_POSTGRES_URL
  if (given !== undefined && given !== '') return { url: given, stop: async () => {} }
  const folder = await mkdtemp(join(tmpdir(), 'durable-postgres-'))
  // Else the cluster of a root, which runs as another user, lies elsewhere and stays behind.
  await chmod(folder, 0o711)
  const dataFolder = join(folder, 'postgres')
  await newDataFolder(dataFolder)
  const server = await startLocalPostgres({
    dataFolder,
    preferredPort: 0, // any free one
    database: 'postgres',
    settings: FAST_AND_FORGETFUL,
    ...(process.env.TEST_SERVER_LOGS && { log: (line: string) => process.stderr.write(`postgres: ${line}\n`) }),
  })
  return {
    url: server.url,
    async stop() {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
