/**
 * How long the pages take in a deployment of ten thousand integrations and ten million requests, and how long they hold the event
 * loop of their process. Method and figures: docs/performance.md, "Dashboard".
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { Integrations } from 'durable-integrations'
import postgres from 'postgres'
import { foldFigures } from '../all/fold.ts'
import type { Child } from '../child.ts'
import { startChild } from '../child.ts'
import type { BenchOptions, Figure, Goal, Outcome } from '../frame.ts'
import { percentile, target } from '../frame.ts'
import { startBenchPostgres } from '../postgres.ts'
import { Started } from '../started.ts'
import type { ApiCommands } from './api-process.ts'
import { deployment } from './deployment.ts'
import type { Size } from './fill.ts'
import { fill } from './fill.ts'
import { dashboardPaths, HOME, PAYLOAD_SEARCH, READS } from './paths.ts'

const FULL = { integrations: 10_000, requests: 10_000_000, webhooks: 1_000_000, items: 1_000_000 } satisfies Size
const QUICK = { integrations: 300, requests: 100_000, webhooks: 20_000, items: 20_000 } satisfies Size
const NOT_QUICK = ['ten million requests (100,000 are measured)']

/** Questions of each kind; the first ones find what they read in no memory. */
const ASKED = 30
const QUICK_ASKED = 10
const WARM_UPS = 3
/** Passes of counting in a minute each, once all is counted. */
const PASSES = 5

const at = (value: number): Goal => ({ direction: 'at most', value })
const GOALS = {
  page: at(150),
  home: at(250),
  payloads: at(4_000),
  eventLoop: at(50),
  read: at(120),
  pass: at(1_000),
}

type Part = Pick<Outcome, 'figures' | 'comparisons'>

/** Ends of a page's figures. */
const P95 = ': p95'
const HELD = ': event loop held'

export async function benchDashboard({ quick, rounds = 1, say }: BenchOptions): Promise<Outcome> {
  const started = new Started()
  try {
    const server = await started.add(startBenchPostgres(), (running) => running.stop())
    const options = {
      database: server.url,
      encryptionKeys: `bench:${randomBytes(32).toString('base64')}`,
      token: randomBytes(24).toString('base64url'),
    }
    const integrations = await started.add(deployment(options), (running) => running.close())
    await integrations.migrate()
    const sql = await started.add(
      postgres(options.database, { max: 1, fetch_types: false, onnotice: () => {} }),
      (running) => running.end({ timeout: 5 }),
    )
    const size = quick ? QUICK : FULL
    await fill(integrations, sql, size, say)
    const asked = quick ? QUICK_ASKED : ASKED
    const passes = await measurePasses(integrations, sql, say)
    const pages = await startPages(started, options)
    const sweeps: { reads: Figure[]; pages: Figure[] }[] = []
    for (let round = 0; round < rounds; round += 1)
      sweeps.push({
        reads: await measureReads(integrations, asked, say),
        pages: await measurePages(pages, dashboardPaths(size), asked, say),
      })
    const reads = foldFigures(sweeps.map((sweep) => sweep.reads))
    const paths = foldFigures(sweeps.map((sweep) => sweep.pages))
    return {
      figures: [...passes.figures, ...reads, ...paths],
      comparisons: [
        ...passes.comparisons,
        ...reads.map((p95) => target(p95, GOALS.read)),
        ...paths.flatMap((figure) => {
          if (figure.name.endsWith(HELD)) return target(figure, GOALS.eventLoop)
          return figure.name.endsWith(P95) ? target(figure, goalOf(figure.name.slice(0, -P95.length))) : []
        }),
      ],
      ...(quick ? { leftOut: NOT_QUICK } : {}),
    }
  } finally {
    await started.stop()
  }
}

/** The first count of all that is stored, then a minute's. */
async function measurePasses(
  integrations: Integrations,
  sql: postgres.Sql,
  say: (line: string) => void,
): Promise<Part> {
  say('counting a month')
  const beganAt = performance.now()
  let steps = 0
  for (let isDone = false; !isDone; ) {
    const pass = await integrations.admin.charts.rollUp()
    isDone = pass.kind === 'done'
    if (pass.kind !== 'busy') steps += pass.steps
  }
  const firstSeconds = (performance.now() - beganAt) / 1_000
  await sql.unsafe('vacuum analyze integration_rollups')
  const times: number[] = []
  for (let n = 0; n < PASSES; n += 1) {
    // As if the last pass had been two minutes ago.
    await sql.unsafe(
      `update integration_cache set value = jsonb_set(jsonb_set(value, '{rolledMs}', to_jsonb((value ->> 'rolledMs')::bigint - 60000)),
         '{settledMs}', to_jsonb((value ->> 'settledMs')::bigint - 60000)) where key = 'integrations:rollups'`,
    )
    const startedAt = performance.now()
    await integrations.admin.charts.rollUp()
    times.push(performance.now() - startedAt)
  }
  const minute: Figure = { name: 'a pass over a minute', value: percentile(times, 0.5), unit: 'ms' }
  const [sizes] = await sql.unsafe<{ rows: number; bytes: number }[]>(
    `select count(*)::float8 as rows, pg_total_relation_size('integration_rollups')::float8 as bytes from integration_rollups`,
  )
  return {
    figures: [
      { name: 'first count of the month', value: firstSeconds, unit: 's' },
      { name: 'steps of it', value: steps, unit: 'transactions' },
      { name: 'rows of roll-ups', value: sizes?.rows ?? 0, unit: 'rows' },
      { name: 'size of roll-ups', value: (sizes?.bytes ?? 0) / 2 ** 20, unit: 'MiB' },
      minute,
    ],
    comparisons: [target(minute, GOALS.pass)],
  }
}

async function measureReads(integrations: Integrations, asked: number, say: (line: string) => void): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [name, ask] of Object.entries(READS)) {
    const times = await timesOf(asked, (n) => ask(integrations, n))
    const p95: Figure = { name: `${name}: p95`, value: percentile(times, 0.95), unit: 'ms' }
    say(`${p95.name} ${p95.value.toFixed(1)} ms`)
    figures.push(p95)
  }
  return figures
}

interface Pages {
  readonly api: Child<ApiCommands>
  readonly root: string
  readonly cookie: string
}

async function startPages(started: Started, options: Parameters<typeof deployment>[0]): Promise<Pages> {
  const folder = await started.add(mkdtemp(join(tmpdir(), 'durable-bench-')), (path) =>
    rm(path, { recursive: true, force: true }),
  )
  const api = await started.add(
    startChild<ApiCommands>(new URL('./api-process.ts', import.meta.url), join(folder, 'api.log')),
    (running) => running.stop(),
  )
  const { port } = await api.ask('start', options)
  const root = `http://127.0.0.1:${port}`
  return { api, root, cookie: await signIn(root, options.token) }
}

async function measurePages(
  { api, root, cookie }: Pages,
  paths: readonly string[],
  asked: number,
  say: (line: string) => void,
): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const path of paths) {
    const get = async (): Promise<void> => {
      const response = await fetch(`${root}${path}`, { headers: { cookie }, redirect: 'manual' })
      await response.text()
      if (response.status !== 200) throw new Error(`${path} answered ${response.status}`)
    }
    for (let n = 0; n < WARM_UPS; n += 1) await get()
    await api.ask('longestHeldMs', undefined)
    const cpuBeforeMs = await api.ask('cpuMs', undefined)
    const times = await timesOf(asked, get)
    const heldMs = await api.ask('longestHeldMs', undefined)
    const cpuMs = ((await api.ask('cpuMs', undefined)) - cpuBeforeMs) / asked
    const p50: Figure = { name: `${path}: p50`, value: percentile(times, 0.5), unit: 'ms' }
    const p95: Figure = { name: `${path}${P95}`, value: percentile(times, 0.95), unit: 'ms' }
    const cpu: Figure = { name: `${path}: processor time`, value: cpuMs, unit: 'ms' }
    const held: Figure = { name: `${path}${HELD}`, value: heldMs, unit: 'ms' }
    say(`${path}: ${p95.value.toFixed(1)} ms, event loop ${heldMs.toFixed(1)} ms, processor ${cpuMs.toFixed(1)} ms`)
    figures.push(p50, p95, cpu, held)
  }
  return figures
}

function goalOf(path: string): Goal {
  if (path === HOME) return GOALS.home
  return path === PAYLOAD_SEARCH ? GOALS.payloads : GOALS.page
}

/** @returns milliseconds of each, one after the other */
async function timesOf(asked: number, ask: (n: number) => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let n = 0; n < asked; n += 1) {
    const startedAt = performance.now()
    await ask(n)
    times.push(performance.now() - startedAt)
  }
  return times
}

async function signIn(root: string, token: string): Promise<string> {
  const response = await fetch(`${root}/operator/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin: root, 'sec-fetch-site': 'same-origin' },
    body: new URLSearchParams({ token, next: '/operator' }),
    redirect: 'manual',
  })
  const [cookie] = response.headers.getSetCookie()
  if (response.status !== 303 || cookie === undefined) throw new Error(`signing in was answered ${response.status}`)
  return cookie.split(';')[0] ?? ''
}
