/** Starts what the scenarios need, each in a process of its own: servers and workers. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { runMigrations } from 'graphile-worker'
import type { Commands } from '../child.ts'
import { startChild } from '../child.ts'
import { TUNED } from '../graphile.ts'
import { METER_ROLE, METERED, prepareMeter } from '../meter.ts'
import { startBenchPostgres } from '../postgres.ts'
import { Started } from '../started.ts'
import { startBenchTemporal } from '../temporal.ts'
import type { ActivityPeerCommands } from './activity-process.ts'
import type { GraphileCommands } from './graphile-process.ts'
import { createOurs, PROVIDER } from './ours.ts'
import type { Lengths, Stage } from './stage.ts'
import { createIntegration } from './stage.ts'
import { createTables } from './tables.ts'
import { ACTIVITY_QUEUE, SCHEMA } from './throughput.ts'
import type { WorkerCommands } from './worker-process.ts'

/** Connections of each pool, ours and the peers'; graphile-worker's own is larger, as it advises. */
const POOL_SIZE = 10

export interface Processes {
  readonly stage: Stage
  /** In the reverse order. */
  stop(): Promise<void>
}

export async function startProcesses(
  lengths: Lengths,
  say: (line: string) => void,
  /** Ours alone, on a Postgres that counts its statements. */
  isMetered = false,
): Promise<Processes> {
  const started = new Started()
  try {
    say('starting Postgres and Temporal')
    const logs = await started.add(mkdtemp(join(tmpdir(), 'durable-bench-logs-')), (folder) =>
      rm(folder, { recursive: true, force: true }),
    )
    const { url: databaseUrl } = await started.add(startBenchPostgres(isMetered ? METERED : {}), (server) =>
      server.stop(),
    )
    const { address: temporalAddress } = await started.add(startBenchTemporal(), (server) => server.stop())
    const options = { databaseUrl, temporalAddress, encryptionKey: randomBytes(32).toString('base64') }
    const unseen = { firstDispatch: new Map(), firstListener: new Map() }
    const integrations = await started.add(createOurs(options, unseen, { logger: onlyTroubles }), (it) => it.close())
    await integrations.migrate()
    // Before any of its workers runs: they end when they hear of a migration, in another schema too.
    for (const schema of Object.values(SCHEMA)) await runMigrations({ connectionString: databaseUrl, schema })
    if (isMetered) await prepareMeter(databaseUrl)
    const tables = await started.add(createTables(databaseUrl, isMetered ? METER_ROLE : null), (it) => it.close())
    const connection = await started.add(Connection.connect({ address: temporalAddress }), (it) => it.close())
    const { id: peerIntegrationId } = await createIntegration(integrations, PROVIDER.quick, 0)
    const child = <Offered extends Commands>(name: string, ...nodeOptions: string[]) => {
      const script = new URL(`./${name}-process.ts`, import.meta.url)
      return started.add(startChild<Offered>(script, join(logs, `${name}.log`), nodeOptions), (it) => it.stop())
    }

    const startPeers = async () => {
      const asItComes = await child<GraphileCommands>('graphile')
      const tuned = await child<GraphileCommands>('graphile')
      const activities = await child<ActivityPeerCommands>('activity')
      await Promise.all([
        asItComes.ask('start', { databaseUrl, schema: SCHEMA.asItComes, tuning: null }),
        tuned.ask('start', { databaseUrl, schema: SCHEMA.tuned, tuning: TUNED }),
        activities.ask('start', { databaseUrl, poolSize: POOL_SIZE, temporalAddress, taskQueue: ACTIVITY_QUEUE }),
      ])
    }

    say('starting the workers')
    const worker = await child<WorkerCommands>('worker', '--expose-gc')
    await worker.ask('start', options)
    if (!isMetered) await startPeers()
    return {
      stage: {
        tables,
        integrations,
        temporal: new Client({ connection }),
        worker,
        peerIntegrationId,
        lengths,
        say,
      },
      stop: () => started.stop(),
    }
  } catch (error) {
    await started.stop()
    throw error
  }
}

const onlyTroubles = {
  debug: () => {},
  info: () => {},
  warn: (fields: Record<string, unknown>, message: string) => console.error(message, fields),
  error: (fields: Record<string, unknown>, message: string) => console.error(message, fields),
}
