/** Starts what the scenarios need, each in a process of its own: servers, APIs, workers. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { Queue } from 'bullmq'
import { runMigrations } from 'graphile-worker'
import { Redis } from 'ioredis'
import type { Commands } from '../child.ts'
import { startChild } from '../child.ts'
import { TUNED } from '../graphile.ts'
import { METER_ROLE, METERED, prepareMeter } from '../meter.ts'
import { startBenchPostgres } from '../postgres.ts'
import { Started } from '../started.ts'
import { startBenchTemporal } from '../temporal.ts'
import type { ApiCommands } from './api-process.ts'
import { SCHEMA, WORKFLOW_QUEUE } from './backlog.ts'
import type { BullmqCommands } from './bullmq-process.ts'
import type { GraphileCommands } from './graphile-process.ts'
import { BULLMQ_QUEUE } from './jobs.ts'
import { createOurs } from './ours.ts'
import type { PeerApiCommands } from './peer-api-process.ts'
import type { PgBossCommands } from './pg-boss-process.ts'
import { startBenchRedis } from './redis.ts'
import { createSender } from './sender.ts'
import type { Lengths, Queues, Stage } from './stage.ts'
import { CONNECTIONS, createIntegration } from './stage.ts'
import { createTables } from './tables.ts'
import type { WorkerCommands } from './worker-process.ts'
import type { WorkflowPeerCommands } from './workflow-process.ts'

/** Connections of each pool, ours and the peers'; graphile-worker's own is larger, as it advises. */
const POOL_SIZE = 10

export interface Processes {
  /** Without a worker, what is stored stays where it is. */
  readonly stage: Omit<Stage, 'worker' | 'queues'>
  startWorkers(): Promise<Stage>
  /** In the reverse order. */
  stop(): Promise<void>
}

/** The peers beside ours: none, graphile-worker, or all of them. */
export type Peers = 'none' | 'graphile' | 'all'

export async function startProcesses(
  lengths: Lengths,
  say: (line: string) => void,
  peers: Peers,
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
    const integrations = await started.add(createOurs(options, { logger: onlyTroubles }), (it) => it.close())
    await integrations.migrate()
    // Before any of its workers runs: they end when they hear of a migration, in another schema too.
    for (const schema of Object.values(SCHEMA)) await runMigrations({ connectionString: databaseUrl, schema })
    if (isMetered) await prepareMeter(databaseUrl)
    const tables = await started.add(createTables(databaseUrl, isMetered ? METER_ROLE : null), (it) => it.close())
    const connection = await started.add(Connection.connect({ address: temporalAddress }), (it) => it.close())
    const { id: peerIntegrationId } = await createIntegration(integrations)
    const child = <Offered extends Commands>(name: string, ...nodeOptions: string[]) => {
      const script = new URL(`./${name}-process.ts`, import.meta.url)
      return started.add(startChild<Offered>(script, join(logs, `${name}.log`), nodeOptions), (it) => it.stop())
    }

    const redis = peers === 'all' ? await started.add(startBenchRedis(), (it) => it.stop()) : null
    say('starting the API processes')
    const { port } = await (await child<ApiCommands>('api')).ask('start', options)
    const peerApi = await child<PeerApiCommands>('peer-api')
    const peerOptions = {
      databaseUrl,
      poolSize: POOL_SIZE,
      integrationId: peerIntegrationId,
      schema: SCHEMA.tuned,
      redisPort: redis?.port ?? null,
    }
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
      async startWorkers() {
        say('starting the workers')
        const worker = await child<WorkerCommands>('worker', '--expose-gc')
        await worker.ask('start', options)
        if (peers === 'none') return { ...stage, worker, queues: null }
        const asItComes = await child<GraphileCommands>('graphile')
        await asItComes.ask('start', { databaseUrl, schema: SCHEMA.asItComes, tuning: null })
        const tuned = await child<GraphileCommands>('graphile')
        await tuned.ask('start', { databaseUrl, schema: SCHEMA.tuned, tuning: TUNED })
        if (redis === null) return { ...stage, worker, queues: null }
        const workflows = await child<WorkflowPeerCommands>('workflow')
        await workflows.ask('start', { databaseUrl, poolSize: POOL_SIZE, temporalAddress, taskQueue: WORKFLOW_QUEUE })
        const bullmqWorker = await child<BullmqCommands>('bullmq')
        await bullmqWorker.ask('start', { databaseUrl, redisPort: redis.port })
        const pgBoss = await child<PgBossCommands>('pg-boss')
        await pgBoss.ask('start', { databaseUrl })
        const connection = { host: '127.0.0.1', port: redis.port }
        const bullmq = await started.add(new Queue(BULLMQ_QUEUE, { connection }), (it) => it.close())
        const client = await started.add(new Redis(connection), async (it) => it.disconnect())
        const queues: Queues = { fsyncRedis: (when) => client.config('SET', 'appendfsync', when), bullmq, pgBoss }
        return { ...stage, worker, queues }
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
