/**
 * A backup of our database alone, by pg_dump, brought back beside a Temporal that knows nothing: what was pending goes through, and
 * what was due is started. docs/deploying.md, "Backup and restore".
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { startGithubSandbox } from '../../sandbox/github/server.ts'
import { createApi } from '../../src/api/app.ts'
import { freePort } from '../../src/bin/free-port.ts'
import { loadHost } from '../../src/bin/host.ts'
import { until } from '../e2e/own-stack.ts'
import { sign } from '../support/providers.ts'
import type { DeployedProcess } from './deployed-process.ts'
import { startDeployed } from './deployed-process.ts'
import { connectSandbox } from './host-at-work.ts'
import type { ToolPostgres } from './postgres-tools.ts'
import { startToolPostgres } from './postgres-tools.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const HOST = join(ROOT, 'examples/host/integrations.config.ts')
const WEBHOOKS = 30
const ENTRIES = 40

let folder: string
let database: ToolPostgres
let temporal: TemporalServer
const ends: (() => Promise<unknown>)[] = []
const encryptionKeys = `k1:${randomBytes(32).toString('base64')}`

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'restore-'))
  await chmod(folder, 0o755)
  database = await startToolPostgres(folder)
  ends.push(() => database.stop())
  temporal = await startTemporalServer({
    binary: await findTemporalBinary(),
    port: await freePort(),
    uiPort: null,
    log: () => {},
  })
  ends.push(() => temporal.stop())
})
afterAll(async () => {
  for (let end = ends.pop(); end !== undefined; end = ends.pop()) await end()
  await rm(folder, { recursive: true, force: true })
})

it('takes up from the restored rows all that was pending or due', async () => {
  await database.tool('createdb', 'before')
  const sandbox = await startGithubSandbox({ port: 0, host: '127.0.0.1', entries: ENTRIES })
  ends.push(() => sandbox.close())
  const env = {
    DATABASE_URL: database.urlOf('before'),
    INTEGRATIONS_ENCRYPTION_KEYS: encryptionKeys,
    INTEGRATIONS_CONFIG: HOST,
    INTEGRATIONS_DEV: '1',
    // Nobody is there: rows are stored all the same.
    TEMPORAL_ADDRESS: `127.0.0.1:${await freePort()}`,
  }
  Object.assign(process.env, env)
  const { integrations, prepare } = await loadHost(HOST)
  await integrations.migrate()
  await prepare?.()
  const { id, webhookSecret } = await connectSandbox({
    databaseUrl: env.DATABASE_URL,
    encryptionKeys,
    sandboxUrl: sandbox.url,
  })
  // Due at once: it has never run.
  await integrations.update(id, { syncIntervalMinutes: 1 })
  const api = createApi(integrations)
  const sent = await Promise.all(Array.from({ length: WEBHOOKS }, () => deliver(api, id, webhookSecret)))
  await integrations.close()

  const dump = join(folder, 'integrations.dump')
  await database.tool('pg_dump', '--format=custom', `--file=${dump}`, 'before')
  await database.tool('createdb', 'after')
  await database.tool('pg_restore', '--exit-on-error', '--no-owner', '--dbname=after', dump)
  await database.tool('dropdb', '--force', 'before')

  const sql = postgres(database.urlOf('after'), { max: 2, fetch_types: false, onnotice: () => {} })
  ends.push(() => sql.end({ timeout: 5 }))
  const [pending] = await sql<
    { count: number }[]
  >`select count(*)::int as count from integration_webhooks where status = 'pending'`
  expect(pending?.count).toBe(WEBHOOKS)
  expect(await schedulesOf(temporal.address)).toEqual([])

  const worker = startWorker({ ...env, DATABASE_URL: database.urlOf('after'), TEMPORAL_ADDRESS: temporal.address })
  ends.push(() => worker.kill())
  await worker.said('"worker.ready"')
  await until(
    'every webhook that was pending is processed',
    async () => {
      const [row] = await sql<
        { count: number }[]
      >`select count(*)::int as count from integration_webhooks where status = 'processed'`
      return row?.count === WEBHOOKS
    },
    180,
  )
  const handled = await sql<{ id: string; runs: number }[]>`select delivery_id as id, runs from activity`
  expect(handled.map(({ id: deliveryId }) => deliveryId).sort()).toEqual([...sent].sort())
  expect(handled.every(({ runs }) => runs === 1)).toBe(true)
  // Made again by the worker as it started.
  expect(await schedulesOf(temporal.address)).not.toEqual([])
  await until(
    'the sync that was due is done, by a Schedule',
    async () => {
      const [row] = await sql<
        { status: string }[]
      >`select status from integration_logs where operation = 'sync' order by id desc limit 1`
      return row?.status === 'success'
    },
    240,
  )
  expect((await worker.terminate()).code).toBe(0)
}, 900_000)

async function deliver(api: ReturnType<typeof createApi>, id: number, secret: string): Promise<string> {
  const deliveryId = randomUUID()
  const body = JSON.stringify({ action: 'opened', delivery: deliveryId })
  const answer = await api.request(`/integrations/github/${id}/webhook`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'issues',
      'x-github-delivery': deliveryId,
      'x-hub-signature-256': `sha256=${sign(body, secret)}`,
    },
    body,
  })
  expect(answer.status).toBeLessThan(300)
  return deliveryId
}

function startWorker(env: Readonly<Record<string, string>>): DeployedProcess {
  const command = [process.execPath, '--conditions=durable-source', '--import', 'tsx', 'src/bin/worker.ts']
  return startDeployed(command, {
    cwd: ROOT,
    env: { PATH: String(process.env.PATH), HOME: String(process.env.HOME), ...env },
  })
}

async function schedulesOf(address: string): Promise<string[]> {
  const connection = await Connection.connect({ address })
  try {
    const ids: string[] = []
    for await (const { scheduleId } of new Client({ connection }).schedule.list()) ids.push(scheduleId)
    return ids
  } finally {
    await connection.close()
  }
}
