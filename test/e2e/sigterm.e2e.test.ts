/** SIGTERM of busy processes: nothing fails, nothing runs twice, and nothing waits for a timeout because of it. */
import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { ManagedProcess, ProcessExit } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import { loadHost } from '../../src/bin/host.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedScript } from '../support/installed-script.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { SECRET, sign } from '../support/providers.ts'
import { until } from './own-stack.ts'

const HOST = new URL('./sigterm-process.ts', import.meta.url)
const INTEGRATIONS = 3
const ITEMS = 120
const WORK_MS = 300
/** Longer than the grace: it ends in the time after it, in which nothing new starts. */
const GRACE_SECONDS = 1
/** A connection that is kept for the next request may be closed in the very moment of its use: a provider sends again then. */
const CLOSED = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])
const ATTEMPTS = 10
const WAIT_MS = 200
const LONG_WORK_MS = 3_000
/** Within it an API is asked twice whether it drains: on a slow machine, too. */
const DRAIN_SECONDS = 5
/**
 * A lost row waits 20 s for the silence of its worker to be noticed, a lost workflow task 10 s; both stay above this.
 * The longest handler takes 3 s.
 */
const LONGEST_SECONDS = 9

/** What has piled up, and the new worker's first tasks: less than a lost worker's 20 s. */
const LONGEST_AFTER_START_SECONDS = 15

interface Running {
  readonly process: ManagedProcess
  readonly lines: readonly string[]
}

let shared: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let sql: Sql
let integrations: Integrations
let environment: Record<string, string>
let ids: number[] = []
const started: ManagedProcess[] = []

beforeAll(async () => {
  ;[shared, server] = await Promise.all([sharePostgres(), shareDevServer()])
  database = await createTestDatabase({ adminUrl: shared.url })
  environment = {
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: 'default',
    INTEGRATIONS_ENCRYPTION_KEYS: `sigterm:${randomBytes(32).toString('base64')}`,
    INTEGRATIONS_CONFIG: installedScript(HOST),
    INTEGRATIONS__CACHE_PREFIX: `sigterm-${randomBytes(4).toString('hex')}`,
    INTEGRATIONS__WORKER__SHUTDOWN_GRACE: String(GRACE_SECONDS),
    API_DRAIN_SECONDS: String(DRAIN_SECONDS),
    HOST: '127.0.0.1',
    PORT: '0',
  }
  Object.assign(process.env, environment)
  const host = await loadHost(fileURLToPath(HOST))
  integrations = host.integrations
  await integrations.ready()
  await host.prepare?.()
  sql = postgres(database.url, { max: 2, fetch_types: false, onnotice: () => {} })
  ids = await Promise.all(
    Array.from({ length: INTEGRATIONS }, async (_, at) => {
      const credentials = { webhook_secret: SECRET }
      return (await integrations.create({ provider: 'slow', name: `slow ${at}`, credentials })).id
    }),
  )
})

afterAll(async () => {
  await Promise.all(started.map((one) => one.stop()))
  await integrations?.close()
  await sql?.end({ timeout: 5 })
  await database?.drop()
  await server?.release()
  await shared?.release()
})

/** Ends when it is ready. */
async function start(kind: 'worker' | 'api', env: Record<string, string> = {}): Promise<Running & { url: string }> {
  const lines: string[] = []
  let onReady: (line: string) => void = () => {}
  const ready = new Promise<string>((resolve) => {
    onReady = resolve
  })
  const child = await startProcess({
    name: kind,
    command: process.execPath,
    args: [join(inject('installed'), `node_modules/durable-integrations/dist/bin/${kind}.js`)],
    env: { NODE_OPTIONS: undefined, ...environment, ...env },
    onLine: (line) => {
      lines.push(line)
      if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${kind} ${line}\n`)
      if (line.includes(`"${kind}.ready"`)) onReady(line)
    },
  })
  started.push(child)
  const failed = child.exited.then(() => Promise.reject(new Error(lines.join('\n'))))
  // It ends one day; then nobody waits for it any more.
  failed.catch(() => {})
  const line = await Promise.race([ready, failed])
  return { process: child, lines, url: kind === 'api' ? (JSON.parse(line) as { url: string }).url : '' }
}

async function count(query: string): Promise<number> {
  const [row] = await sql.unsafe<{ count: number }[]>(`select count(*)::int as count ${query}`)
  return row?.count ?? 0
}

/** @returns how it ended, and after how many seconds */
async function terminate({ process: child }: Running): Promise<ProcessExit & { seconds: number }> {
  const at = performance.now()
  child.child.kill('SIGTERM')
  const exit = await child.exited
  return { ...exit, seconds: (performance.now() - at) / 1_000 }
}

/**
 * Sends until told to stop, over connections that are kept: to each API in turn; to another when one takes no connection, and what
 * gets no answer again under its id.
 */
function sendTo(urls: () => readonly string[], ratePerSecond: number) {
  let isOver = false
  let at = 0
  const statuses: Record<string, number> = {}
  const sent = new Set<string>()
  const under: Promise<void>[] = []
  const note = (what: string): void => {
    statuses[what] = (statuses[what] ?? 0) + 1
  }
  const deliver = async (place: number, work_ms: number): Promise<void> => {
    const id = randomUUID()
    const body = JSON.stringify({ id, work_ms })
    const headers = { 'x-delivery': id, 'x-event': 'thing', 'x-signature': sign(body) }
    for (let turn = 0; turn < ATTEMPTS; turn += 1) {
      const all = urls()
      const url = `${all[(place + turn) % all.length]}/integrations/slow/${ids[place % ids.length]}/webhook`
      try {
        const answer = await fetch(url, { method: 'POST', headers, body })
        await answer.arrayBuffer()
        note(String(answer.status))
        if (answer.ok) sent.add(id)
        return
      } catch (error) {
        // As a load balancer has it, and a provider.
        const code = (error as { cause?: { code?: string } }).cause?.code ?? 'unknown'
        if (CLOSED.has(code)) await sleep(WAIT_MS)
        else if (code !== 'ECONNREFUSED') return note(code)
      }
    }
    note('no answer')
  }
  const sending = (async () => {
    for (; !isOver; at += 1) {
      under.push(deliver(at, at % 25 === 10 ? LONG_WORK_MS : WORK_MS))
      await sleep(1_000 / ratePerSecond)
    }
    await Promise.all(under)
  })()
  return {
    sent,
    async stop(): Promise<Record<string, number>> {
      isOver = true
      await sending
      return statuses
    },
  }
}

/** All are processed, at the first attempt, handled once, and none of them late. */
async function expectAllProcessed(sent: ReadonlySet<string>): Promise<void> {
  await until(
    'all are settled',
    async () => (await count(`from integration_webhooks where status in ('pending', 'processing')`)) === 0,
    60,
  )
  const [longest] = await sql<{ seconds: number; id: string }[]>`
    select extract(epoch from processed_at - created_at)::float as seconds, id from integration_webhooks
    order by 1 desc nulls first limit 1`
  console.log(`${sent.size} webhooks; the longest took ${longest?.seconds.toFixed(1)} s from arrival to processed`)
  const stored = await sql<{ delivery_id: string }[]>`select delivery_id from integration_webhooks`
  expect(new Set(stored.map((row) => row.delivery_id))).toEqual(sent)
  expect(
    await sql`select id, status, attempts, error from integration_webhooks where status <> 'processed' or attempts <> 1`,
  ).toEqual([])
  expect(await sql`select delivery_id, count(*) from handled group by 1 having count(*) <> 1`).toEqual([])
  expect(longest?.seconds).toBeLessThan(LONGEST_SECONDS)
}

const inHand = () => count(`from integration_webhooks where status = 'processing'`)
const runs = (ended: number) => async () =>
  (await count(
    `from integration_logs where operation = 'sync' and status = 'success' and metadata ? 'announced_at'`,
  )) === ended

describe('SIGTERM', () => {
  it('of one of two busy workers and of one of two busy APIs, as a rolling restart does', async () => {
    const [one, two, first, second] = await Promise.all([start('worker'), start('worker'), start('api'), start('api')])
    const sender = sendTo(() => [first.url, second.url], 30)
    await integrations.syncs.start(ids[0] as number)
    await until('items and webhooks are in hand', async () => {
      return (
        (await inHand()) >= 5 &&
        (await count(`from integration_sync_items where status = 'processing' and claim is not null`)) > 0
      )
    })
    const ending = terminate(one)
    const readiness = async (): Promise<number> => (await fetch(`${first.url}/operator/api/v1/readyz`)).status
    expect(await readiness()).toBe(200)
    // A balancer's idle connections are not closed under its next delivery.
    expect((await fetch(`${first.url}/operator/api/v1/healthz`)).headers.get('keep-alive')).toBe('timeout=910')
    const draining = terminate(first)
    await until('it says that it drains', async () => (await readiness()) === 503, 5)
    const answer = await fetch(`${first.url}/operator/api/v1/healthz`)
    expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close'])
    const [worker, api] = await Promise.all([ending, draining])
    console.log(`a busy worker ended ${worker.seconds.toFixed(1)} s after SIGTERM`)
    expect(worker).toMatchObject({ code: 0, signal: null })
    console.log(`a busy API ended ${api.seconds.toFixed(1)} s after SIGTERM`)
    expect(api).toMatchObject({ code: 0, signal: null })
    expect(first.lines.join('\n')).toContain('"connections_cut":0')

    const statuses = await sender.stop()
    expect(Object.keys(statuses), JSON.stringify(statuses)).toEqual(['200'])
    await expectAllProcessed(sender.sent)
    await until('the run has ended', runs(1), 60)
    const items = await sql<{ status: string; attempts: number; items: number }[]>`
      select status, attempts, count(*)::int as items from integration_sync_items group by 1, 2`
    expect(items).toEqual([{ status: 'success', attempts: 1, items: ITEMS }])

    // The only worker, and then a new one: what it had in hand waits for nothing but the new one.
    const again = sendTo(() => [second.url], 30)
    for (const id of sender.sent) again.sent.add(id)
    await until('webhooks are in hand', async () => (await inHand()) >= 5)
    const last = await terminate(two)
    expect(last).toMatchObject({ code: 0, signal: null })
    expect(await inHand()).toBe(0)
    const statusesThen = await again.stop()
    expect(Object.keys(statusesThen)).toEqual(['200'])
    await start('worker')
    const afterSeconds = await until(
      'all are settled',
      async () => (await count(`from integration_webhooks where status <> 'processed'`)) === 0,
      60,
    )
    console.log(
      `the only worker ended ${last.seconds.toFixed(1)} s after SIGTERM; all settled ${afterSeconds} s after the next was ready`,
    )
    expect(Number(afterSeconds)).toBeLessThan(LONGEST_AFTER_START_SECONDS)
    expect(await sql`select id from integration_webhooks where attempts <> 1`).toEqual([])
  })
})
