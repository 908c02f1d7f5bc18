/**
 * A backup of our database alone, by pg_dump, brought back beside a Temporal that knows nothing, or in a new namespace: what was
 * pending goes through, and what was due is started. Also one that was taken while all was at work, on a new server, after the old one
 * was lost. docs/deploying.md, "Backup and restore".
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { SCHEMA } from '../../examples/host/tables.ts'
import { startGithubSandbox } from '../../sandbox/github/server.ts'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import { createApi } from '../../src/api/app.ts'
import { freePort } from '../../src/bin/free-port.ts'
import { loadHost } from '../../src/bin/host.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
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
const NAMESPACE_KEPT = '1 day'

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
  temporal = await temporalServer()
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

interface Sent {
  readonly id: string
  readonly answeredMs: number
}

it.each(['lost', 'kept'] as const)(
  'goes on from a backup that was taken under load, on a new server, with Temporal’s state %s',
  async (state) => {
    const place = await mkdtemp(join(folder, `${state}-`))
    await chmod(place, 0o755)
    const [old, fresh] = await Promise.all([serverIn(join(place, 'old')), serverIn(join(place, 'new'))])
    await old.tool('createdb', 'live')
    const sandbox = await startGithubSandbox({ port: 0, host: '127.0.0.1', entries: ENTRIES })
    ends.push(() => sandbox.close())
    const first = await temporalServer()
    const env = {
      DATABASE_URL: old.urlOf('live'),
      INTEGRATIONS_ENCRYPTION_KEYS: encryptionKeys,
      INTEGRATIONS_CONFIG: HOST,
      INTEGRATIONS_DEV: '1',
      TEMPORAL_ADDRESS: first.address,
    }
    const integrations = hostBeside(env)
    await integrations.migrate()
    const hostTables = postgres(env.DATABASE_URL, { max: 1, onnotice: () => {} })
    await hostTables.unsafe(SCHEMA)
    await hostTables.end()
    const { id, webhookSecret } = await connectSandbox({
      databaseUrl: env.DATABASE_URL,
      encryptionKeys,
      sandboxUrl: sandbox.url,
    })
    await integrations.update(id, { syncIntervalMinutes: 1 })
    const worker = startWorker(env)
    ends.push(() => worker.kill())
    await worker.said('"worker.ready"')

    // All at once: webhooks, keyed writes, the sync that is due.
    const api = createApi(integrations)
    const sent: Sent[] = []
    const spent = new Map<string, number>()
    const calls = new Map<string, number>()
    const integration = await integrations.get(id)
    const write = (of: typeof integration, key: string) =>
      of.request('writes', 'POST', async () => calls.set(key, (calls.get(key) ?? 0) + 1).size, { idempotencyKey: key })
    let isOver = false
    const load = Promise.all([
      ...[1, 2, 3, 4].map(async () => {
        while (!isOver) {
          const deliveryId = await deliver(api, id, webhookSecret)
          sent.push({ id: deliveryId, answeredMs: performance.now() })
        }
      }),
      (async () => {
        while (!isOver) {
          const key = randomUUID()
          await write(integration, key)
          spent.set(key, performance.now())
        }
      })(),
    ])
    load.catch(() => {})
    await until('the load is under way', async () => sent.length >= 500)
    const beganMs = performance.now()
    const dump = join(place, 'integrations.dump')
    await old.tool('pg_dump', '--format=custom', `--file=${dump}`, 'live')
    const duringMs = performance.now()
    await until('more came after it', async () => sent.filter(({ answeredMs }) => answeredMs > duringMs).length >= 100)
    isOver = true
    await load
    await worker.kill()
    await integrations.close()
    await old.stop()
    if (state === 'lost') await first.stop()

    await fresh.tool('createdb', 'restored')
    await fresh.tool('pg_restore', '--exit-on-error', '--no-owner', '--dbname=restored', dump)
    const sql = postgres(fresh.urlOf('restored'), { max: 2, fetch_types: false, onnotice: () => {} })
    ends.push(() => sql.end({ timeout: 5 }))
    const rows = await sql<{ id: string; status: string }[]>`select delivery_id as id, status from integration_webhooks`
    const asBackedUp = new Map(rows.map((row) => [row.id, row.status]))
    const due = sent.filter(({ answeredMs }) => answeredMs < beganMs)
    expect(due.filter((one) => !asBackedUp.has(one.id))).toEqual([])
    expect([...asBackedUp.values()].filter((status) => status !== 'processed').length).toBeGreaterThan(0)
    const [cursor] = await sql<
      { cursor: string | null }[]
    >`select sync_cursor #>> '{}' as cursor from integrations where id = ${id}`

    const second = state === 'lost' ? await temporalServer() : first
    const namespace = state === 'lost' ? 'default' : 'after-the-restore'
    if (state === 'kept') await makeNamespace(second.address, namespace)
    const restored = {
      ...env,
      DATABASE_URL: fresh.urlOf('restored'),
      TEMPORAL_ADDRESS: second.address,
      TEMPORAL_NAMESPACE: namespace,
    }
    const next = startWorker(restored)
    ends.push(() => next.kill())
    await next.said('"worker.ready"')
    await until(
      'every webhook of the backup is settled',
      async () => (await sql`select from integration_webhooks where status <> 'processed' limit 1`).length === 0,
      180,
    )
    const handled = await sql<{ id: string; runs: number }[]>`select delivery_id as id, runs from activity`
    const runs = new Map(handled.map((row) => [row.id, row.runs]))
    const most = (status: string | undefined): number => (status === 'processing' ? 2 : 1)
    expect(
      [...asBackedUp].filter(([one, status]) => !(Number(runs.get(one)) >= 1 && Number(runs.get(one)) <= most(status))),
    ).toEqual([])
    await until(
      'a sync has ended since, and its cursor has not gone back',
      async () => {
        const [row] = await sql<{ cursor: string | null; open: number; done: number }[]>`
          select sync_cursor #>> '{}' as cursor,
            (select count(*)::int from integration_logs where operation = 'sync' and status = 'processing') as open,
            (select count(*)::int from integration_logs where operation = 'sync' and status = 'success') as done
          from integrations where id = ${id}`
        return row?.open === 0 && row.done > 0 && (row.cursor ?? '') >= (cursor?.cursor ?? '')
      },
      240,
    )
    const [lists] = await sql<{ issues: number; mappings: number }[]>`
      select (select count(*)::int from issues) as issues, (select count(*)::int from integration_mappings) as mappings`
    expect(lists?.issues).toBe(lists?.mappings)

    const after = hostBeside(restored)
    ends.push(() => after.close())
    const its = await after.get(id)
    const keys = [...spent].filter(([, atMs]) => atMs < beganMs).map(([key]) => key)
    expect(keys.length).toBeGreaterThan(20)
    for (const key of keys.slice(-20)) {
      await expect(write(its, key)).rejects.toMatchObject({ code: 'idempotency_conflict' })
      expect(calls.get(key)).toBe(1)
    }
    expect((await next.terminate()).code).toBe(0)
  },
  900_000,
)

/** What the host's API and its operators have; its listeners are the worker's. */
function hostBeside(env: Readonly<Record<'DATABASE_URL' | 'TEMPORAL_ADDRESS', string>>): Integrations {
  return createIntegrations({
    database: env.DATABASE_URL,
    encryptionKeys,
    temporal: { address: env.TEMPORAL_ADDRESS },
    logger: { debug() {}, info() {}, warn: console.warn, error: console.error },
    providers: { github: new GitHubProvider() },
  })
}

async function serverIn(place: string): Promise<ToolPostgres> {
  await mkdir(place)
  await chmod(place, 0o755)
  const server = await startToolPostgres(place)
  ends.push(() => server.stop())
  return server
}

async function temporalServer(): Promise<TemporalServer> {
  const server = await startTemporalServer({
    binary: await findTemporalBinary(),
    port: await freePort(),
    uiPort: null,
    log: () => {},
  })
  ends.push(() => server.stop())
  return server
}

async function makeNamespace(address: string, namespace: string): Promise<void> {
  const connection = await Connection.connect({ address })
  try {
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs(NAMESPACE_KEPT),
    })
  } finally {
    await connection.close()
  }
}

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
