/** Starts what the scenarios need, each in a process of its own: servers, APIs, workers. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { runMigrations } from 'graphile-worker'
import type { Commands } from '../child.ts'
import { startChild } from '../child.ts'
import type { Tuning } from '../graphile.ts'
import { TUNED } from '../graphile.ts'
import { startBenchPostgres } from '../postgres.ts'
import { Started } from '../started.ts'
import { startBenchTemporal } from '../temporal.ts'
import type { ApiCommands } from './api-process.ts'
import { SCHEMA, WORKFLOW_QUEUE } from './backlog.ts'
import type { GraphileCommands } from './graphile-process.ts'
import { createOurs } from './ours.ts'
import type { PeerApiCommands } from './peer-api-process.ts'
import { createSender } from './sender.ts'
import type { Lengths, Stage } from './stage.ts'
import { CONNECTIONS, createIntegration } from './stage.ts'
import { createTables } from './tables.ts'
import type { WorkerCommands } from './worker-process.ts'
import type { WorkflowPeerCommands } from './workflow-process.ts'

/** Connections of each pool, ours and the peers'; graphile-worker's own is larger, as it advises. */
const POOL_SIZE = 10

export interface Processes {
  /** Without a worker, what is stored stays where it is. */
  readonly stage: Omit<Stage, 'worker'>
  startWorkers(which: { readonly withWorkflowPeer: boolean }): Promise<Stage>
  /** In the reverse order. */
  stop(): Promise<void>
}

export async function startProcesses(
  lengths: Lengths,
  say: (line: string) => void,
  tuning: Tuning = TUNED,
): Promise<Processes> {
  const started = new Started()
  try {
    say('starting Postgres and Temporal')
    const logs = await started.add(mkdtemp(join(tmpdir(), 'durable-bench-logs-')), (folder) =>
      rm(folder, { recursive: true, force: true }),
    )
    const { url: databaseUrl } = await started.add(startBenchPostgres(), (server) => server.stop())
    const { address: temporalAddress } = await started.add(startBenchTemporal(), (server) => server.stop())
    const options = { databaseUrl, temporalAddress, encryptionKey: randomBytes(32).toString('base64') }
    const integrations = await started.add(createOurs(options, { logger: onlyTroubles }), (it) => it.close())
    await integrations.migrate()
    // Before any of its workers runs: they end when they hear of a migration, in another schema too.
    for (const schema of Object.values(SCHEMA)) await runMigrations({ connectionString: databaseUrl, schema })
    const tables = await started.add(createTables(databaseUrl), (it) => it.close())
    const connection = await started.add(Connection.connect({ address: temporalAddress }), (it) => it.close())
    const { id: peerIntegrationId } = await createIntegration(integrations)
    const child = <Offered extends Commands>(name: string, ...nodeOptions: string[]) => {
      const script = new URL(`./${name}-process.ts`, import.meta.url)
      return started.add(startChild<Offered>(script, join(logs, `${name}.log`), nodeOptions), (it) => it.stop())
    }

    say('starting the API processes')
    const { port } = await (await child<ApiCommands>('api')).ask('start', options)
    const peerApi = await child<PeerApiCommands>('peer-api')
    const peerOptions = { databaseUrl, poolSize: POOL_SIZE, integrationId: peerIntegrationId, schema: SCHEMA.tuned }
    const { port: peerPort } = await peerApi.ask('start', peerOptions)
    const stage = {
      tables,
      integrations,
      temporal: new Client({ connection }),
      ours: await started.add(createSender(port, CONNECTIONS), (it) => it.close()),
      peer: await started.add(createSender(peerPort, CONNECTIONS), (it) => it.close()),
      peerIntegrationId,
      lengths,
      say,
    }
    return {
      stage,
      stop: () => started.stop(),
      async startWorkers({ withWorkflowPeer }) {
        say('starting the workers')
        const worker = await child<WorkerCommands>('worker', '--expose-gc')
        await worker.ask('start', options)
        const asItComes = await child<GraphileCommands>('graphile')
        await asItComes.ask('start', { databaseUrl, schema: SCHEMA.asItComes, tuning: null })
        const tuned = await child<GraphileCommands>('graphile')
        await tuned.ask('start', { databaseUrl, schema: SCHEMA.tuned, tuning })
        if (withWorkflowPeer) {
          const workflows = await child<WorkflowPeerCommands>('workflow')
          await workflows.ask('start', { databaseUrl, poolSize: POOL_SIZE, temporalAddress, taskQueue: WORKFLOW_QUEUE })
        }
        return { ...stage, worker }
      },
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
