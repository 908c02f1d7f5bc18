/** What calls have settled, and keys they have spent, outlives a crash of Postgres: its processes killed, no shutdown, no last write. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { LocalPostgres } from '../../dev/postgres.ts'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import { HttpError } from '../../src/framework/errors.ts'
import { newDataFolder } from '../support/data-folder.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const LIMIT = RateLimit.perHour(2).sliding()
const encryptionKeys = encryptionKey('test')

let folder: string
let server: LocalPostgres
/** In the database's name; the server's URL changes with its port. */
let databaseName: string
let test: TestIntegrations

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'durable-postgres-crash-'))
  // Else the cluster of a root, which runs as another user, lies elsewhere and stays behind.
  await chmod(folder, 0o711)
  await newDataFolder(join(folder, 'postgres'))
  server = await start()
  databaseName = new URL((await createTestDatabase({ adminUrl: server.url })).url).pathname
  test = connected()
})

afterAll(async () => {
  await test?.close()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

function start(): Promise<LocalPostgres> {
  return startLocalPostgres({
    dataFolder: join(folder, 'postgres'),
    preferredPort: 0,
    database: 'postgres',
    // Else the WAL writer would soon flush, behind our back, what a statement has left unflushed.
    settings: { wal_writer_delay: '10s' },
  })
}

/** As another process would be: nothing in its memory. */
function connected(): TestIntegrations {
  const url = new URL(server.url)
  url.pathname = databaseName
  return testIntegrations(url.href, {
    encryptionKeys,
    providers: { plain: {}, limited: { defaultRateLimit: () => LIMIT } },
    config: {
      circuit_breaker: { strategy: 'count', threshold: 2 },
      health: { degraded_after: 2, failing_after: 3 },
      rate_limiting: { max_wait_seconds: 0 },
    },
  })
}

/** SIGKILL to the postmaster and to each of its children: nobody is left to write anything down. */
async function killPostgres(): Promise<void> {
  const sql = postgres(server.url, { max: 1, fetch_types: false })
  const children = await sql<{ pid: number }[]>`select pid from pg_stat_activity`
  const ids = children.map(({ pid }) => pid)
  expect(ids.length).toBeGreaterThan(3)
  for (const pid of [server.pid, ...ids])
    try {
      process.kill(pid, 'SIGKILL')
    } catch (error) {
      // A backend ends by itself as soon as its postmaster is gone.
      if ((error as { code?: string }).code !== 'ESRCH') throw error
    }
  await server.exited
  await sql.end({ timeout: 0 })
  await server.stop()
}

const never = () => {
  throw new Error('the provider was called')
}

async function healthOf(id: number): Promise<unknown> {
  const [row] = await test.sql`
    select health_status, consecutive_failures, is_active, last_error_at from integrations where id = ${id}`
  return row
}

async function incidentsOf(id: number): Promise<readonly unknown[]> {
  return test.sql`
    select id, status, source, reason, peak_severity, opened_at from integration_incidents where integration_id = ${id}`
}

it('breaker, suppression, spent units, key, health and incident are there after it, and are obeyed', async () => {
  const fails = () => Promise.reject(new HttpError(503, new Headers(), null))
  const broken = await makeIntegration(test, 'plain')
  const quiet = await makeIntegration(test, 'plain')
  const limited = await makeIntegration(test, 'limited')
  const keyed = await makeIntegration(test, 'plain')

  for (const endpoint of ['a', 'b'])
    await expect(broken.request(endpoint, 'POST', fails)).rejects.toMatchObject({ status: 503 })
  const asksForQuiet = () => Promise.reject(new HttpError(429, new Headers({ 'Retry-After': '300' }), null))
  await expect(quiet.request('a', 'POST', asksForQuiet)).rejects.toMatchObject({ status: 429 })
  const write = keyed.request('a', 'POST', () => ({ id: 'made' }), { idempotencyKey: 'answered' })
  expect(await write).toEqual({ id: 'made' })
  const before = {
    circuit: await broken.circuit(),
    health: await healthOf(broken.id),
    incidents: await incidentsOf(broken.id),
    suppressedUntil: (await quiet.rateLimit()).suppressedUntil,
  }
  expect(before).toMatchObject({
    circuit: { state: 'open' },
    health: { health_status: 'degraded', consecutive_failures: 2, is_active: true },
    incidents: [{ status: 'open', source: 'circuit', reason: 'threshold_reached', peak_severity: 'failing' }],
    suppressedUntil: expect.any(Date),
  })
  // Last, so that nothing written after them makes them durable too: these units were taken without a flush.
  for (const endpoint of ['a', 'b']) await limited.request(endpoint, 'POST', () => 'ok')

  await killPostgres()
  await test.close()
  server = await start()
  test = connected()

  const again = (id: number) => test.integrations.get(id)
  expect({
    circuit: await (await again(broken.id)).circuit(),
    health: await healthOf(broken.id),
    incidents: await incidentsOf(broken.id),
    suppressedUntil: (await (await again(quiet.id)).rateLimit()).suppressedUntil,
  }).toEqual(before)
  expect(await (await again(limited.id)).rateLimit()).toMatchObject({ source: 'provider', limit: 2, used: 2 })

  await expect((await again(broken.id)).request('a', 'POST', never)).rejects.toMatchObject({ code: 'circuit_open' })
  await expect((await again(quiet.id)).request('a', 'POST', never)).rejects.toMatchObject({
    code: 'rate_limit_exceeded',
    rateLimit: null,
  })
  await expect((await again(limited.id)).request('a', 'POST', never)).rejects.toMatchObject({
    code: 'rate_limit_exceeded',
    rateLimit: { limit: 2 },
  })
  const repeat = (await again(keyed.id)).request('a', 'POST', never, { idempotencyKey: 'answered' })
  await expect(repeat).rejects.toMatchObject({
    code: 'idempotency_conflict',
    priorState: 'recovered',
    priorResponse: { id: 'made' },
  })
  // The counter goes on from where it was, and the open incident takes what is new: no second one is opened.
  await (await again(broken.id)).recordFailure('upstream')
  expect(await healthOf(broken.id)).toMatchObject({ health_status: 'failing', consecutive_failures: 3 })
  expect(await incidentsOf(broken.id)).toEqual(before.incidents)
  const rows = await test.sql`
    select integration_id, failure_class from integration_requests order by id`
  expect(rows).toEqual([
    ...[broken, broken].map(({ id }) => ({ integration_id: String(id), failure_class: 'upstream' })),
    { integration_id: String(quiet.id), failure_class: 'throttle' },
    ...[keyed, limited, limited].map(({ id }) => ({ integration_id: String(id), failure_class: null })),
  ])
})

it('in the middle of a keyed call: the key stays spent, and nobody sends it again', async () => {
  const integration = await makeIntegration(test, 'plain')
  const caller = test
  const outcome = await integration.request(
    'a',
    'POST',
    async () => {
      // The last flush was the reservation's.
      await killPostgres()
      server = await start()
      test = connected()
      const other = await test.integrations.get(integration.id)
      await expect(other.request('a', 'POST', never, { idempotencyKey: 'in flight' })).rejects.toMatchObject({
        code: 'idempotency_conflict',
        priorState: 'unknown',
      })
      return 'done'
    },
    { idempotencyKey: 'in flight', timeoutMs: 120_000 },
  )
  expect(outcome).toBe('done')
  expect(await (await test.integrations.get(integration.id)).idempotencyRecord('in flight')).not.toBeNull()
  await caller.close()
})
