/**
 * Three workers over a Temporal server that starts activities eagerly where it is asked to, as servers do from 1.32 on
 * (https://github.com/temporalio/temporal/pull/10651); our dev server is older and does not by itself.
 *
 * One a file: the host's module and the environment belong to the process.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Connection } from '@temporalio/client'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { startProcess } from '../../dev/processes.ts'
import { startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { loadHost } from '../../src/bin/host.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { taskQueuesOf } from '../../src/temporal/workflow-starts.ts'
import { installedProgram, installedScript } from '../support/installed-script.ts'

const HOST = new URL('./fleet-spread-host.ts', import.meta.url)
const NAMESPACE = 'default'
const WORKERS = ['worker-1', 'worker-2', 'worker-3']
const POLL_MS = 100
const POLLING_WITHIN_MS = 90_000
/** temporal.api.enums.v1.TaskQueueType */
const ACTIVITY_QUEUE = 2

export interface SpreadStack {
  readonly integrations: Integrations
  readonly sql: Sql
  readonly workers: readonly string[]
  stop(): Promise<void>
}

/** Ends when each worker waits for activities. */
export async function startSpreadStack(): Promise<SpreadStack> {
  const stops: (() => Promise<unknown>)[] = []
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next()
  }
  const tail: string[] = []
  const say = (line: string): void => {
    if (tail.push(line) > 40) tail.shift()
    if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${line}\n`)
  }
  try {
    const folder = await mkdtemp(join(tmpdir(), 'durable-spread-'))
    stops.push(() => rm(folder, { recursive: true, force: true }))
    // The cluster of a root runs as another user.
    await chmod(folder, 0o711)
    const database = await startLocalPostgres({
      dataFolder: join(folder, 'postgres'),
      preferredPort: 0,
      database: 'spread',
      log: say,
    })
    stops.push(() => database.stop())
    const temporal = await startTemporalServer({
      binary: await findTemporalBinary(),
      port: 0,
      uiPort: null,
      namespace: NAMESPACE,
      dynamicConfig: { 'system.enableActivityEagerExecution': 'true' },
      log: say,
    })
    stops.push(() => temporal.stop())
    const keyFile = join(folder, 'encryption-keys')
    await writeFile(keyFile, `spread:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 })
    const environment = {
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: NAMESPACE,
      INTEGRATIONS_ENCRYPTION_KEYS_FILE: keyFile,
      INTEGRATIONS_CONFIG: installedScript(HOST),
    }
    Object.assign(process.env, environment)
    const { integrations, prepare } = await loadHost(fileURLToPath(HOST))
    stops.push(() => integrations.close())
    await integrations.migrate()
    await prepare?.()
    const sql = postgres(database.url, { max: 2, fetch_types: false, onnotice: () => {} })
    stops.push(() => sql.end({ timeout: 5 }))
    for (const name of WORKERS) {
      const worker = await startProcess({
        name,
        command: process.execPath,
        args: [installedProgram('worker')],
        env: { NODE_OPTIONS: undefined, ...environment, FLEET_MEMBER: name },
        onLine: (line) => say(`${name} ${line}`),
      })
      stops.push(() => worker.stop())
    }
    await allPoll(temporal.address, taskQueuesOf(integrations.config)[0] ?? '', () => tail.join('\n'))
    return { integrations, sql, workers: WORKERS, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function allPoll(address: string, taskQueue: string, said: () => string): Promise<void> {
  const connection = await Connection.connect({ address })
  try {
    const giveUpAt = performance.now() + POLLING_WITHIN_MS
    for (;;) {
      const { pollers } = await connection.workflowService.describeTaskQueue({
        namespace: NAMESPACE,
        taskQueue: { name: taskQueue },
        taskQueueType: ACTIVITY_QUEUE,
      })
      if ((pollers ?? []).length === WORKERS.length) return
      if (performance.now() > giveUpAt) throw new Error(`${pollers?.length} of ${WORKERS.length} poll:\n${said()}`)
      await sleep(POLL_MS)
    }
  } finally {
    await connection.close()
  }
}
