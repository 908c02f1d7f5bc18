/**
 * A first sync of a GitHub repository: pages over HTTP, every issue an item, its listener, the finalised run.
 * Method and figures: docs/performance.md, "GitHub".
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import type { Integrations } from 'durable-integrations'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import type { LoggedRequest } from '../../sandbox/github/request-log.ts'
import { workflowId } from '../../src/workflows/ids.ts'
import type { Child, Commands } from '../child.ts'
import { startChild } from '../child.ts'
import type { BenchOptions, Figure, Goal, Outcome } from '../frame.ts'
import { compare, median, target } from '../frame.ts'
import { startBenchPostgres } from '../postgres.ts'
import { Started } from '../started.ts'
import { startBenchTemporal } from '../temporal.ts'
import { createOurs } from './ours.ts'
import type { SandboxCommands } from './sandbox-process.ts'
import type { WorkerCommands } from './worker-process.ts'

interface Lengths {
  readonly rounds: number
  readonly few: number
  readonly many: number
}

const FULL: Lengths = { rounds: 3, few: 1_000, many: 10_000 }
const QUICK: Lengths = { rounds: 1, few: 500, many: 2_000 }
const PAGE = 100
/** Each eighth entry of the sandbox is a pull request. */
const PULL_REQUEST_EVERY = 8
const LIST = '/repos/octo-sandbox/widgets/issues'
const MB = 1_000_000

const atMost = (value: number): Goal => ({ direction: 'at most', value })

interface Stage {
  readonly integrations: Integrations
  readonly temporal: Client
  readonly sql: Sql
  readonly worker: Child<WorkerCommands>
  readonly startSandbox: (entries: number) => Promise<{ url: string; stop: () => Promise<void> }>
}

export async function benchGitHub({ quick, say, ...options }: BenchOptions): Promise<Outcome> {
  const { few, many, ...lengths } = quick ? QUICK : FULL
  const rounds = options.rounds ?? lengths.rounds
  const started = new Started()
  try {
    say('starting Postgres, Temporal and a worker')
    const stage = await startStage(started)
    await runSync(stage, few) // What is loaded and compiled once counts for neither.
    const seconds = { few: [] as number[], many: [] as number[] }
    const growth = { heap: [] as number[], resident: [] as number[], peak: [] as number[] }
    say(`repositories of ${few} and ${many} issues and pull requests, in turn`)
    for (let round = 0; round < rounds; round += 1) {
      seconds.few.push(await runSync(stage, few))
      const before = await stage.worker.ask('memory', null)
      seconds.many.push(await runSync(stage, many))
      const after = await stage.worker.ask('memory', null)
      growth.heap.push(after.heapBytes - before.heapBytes)
      growth.resident.push(after.residentBytes - before.residentBytes)
      growth.peak.push(after.peakBytes - before.residentBytes)
    }
    return outcomeOf({ few, many }, seconds, growth)
  } finally {
    await started.stop()
  }
}

function outcomeOf(
  entries: { few: number; many: number },
  seconds: { few: number[]; many: number[] },
  growth: { heap: number[]; resident: number[]; peak: number[] },
): Outcome {
  const figure = (name: string, value: number, unit: string): Figure => ({ name, value, unit })
  const ofMany = (name: string, values: number[]) =>
    figure(`${entries.many} entries: worker's ${name}`, Math.max(...values) / MB, 'MB')
  const few = figure(`a sync of ${entries.few} entries`, median(seconds.few), 's')
  const many = figure(`a sync of ${entries.many} entries`, median(seconds.many), 's')
  const heap = ofMany('heap afterwards above that before', growth.heap)
  const resident = ofMany('resident memory afterwards above that before', growth.resident)
  const peak = ofMany('highest resident memory above that before', growth.peak)
  return {
    figures: [
      few,
      many,
      figure('issues, from the start of the run to its end', issuesOf(entries.many) / many.value, 'issues/s'),
      figure('requests of the larger sync', requestsOf(entries.many), 'requests'),
      heap,
      resident,
      peak,
    ],
    comparisons: [
      compare(many, few, 'ratio', atMost(1.1 * (entries.many / entries.few))),
      target(heap, atMost(20)),
      target(peak, atMost(100)),
    ],
  }
}

const issuesOf = (entries: number): number => entries - Math.floor(entries / PULL_REQUEST_EVERY)
/** A page that is full is followed by one more, which may be empty. */
const requestsOf = (entries: number): number => Math.floor(entries / PAGE) + 1

async function startStage(started: Started): Promise<Stage> {
  const logs = await started.add(mkdtemp(join(tmpdir(), 'durable-bench-logs-')), (folder) =>
    rm(folder, { recursive: true, force: true }),
  )
  const { url: databaseUrl } = await started.add(startBenchPostgres(), (server) => server.stop())
  const { address: temporalAddress } = await started.add(startBenchTemporal(), (server) => server.stop())
  const options = { databaseUrl, temporalAddress, encryptionKey: randomBytes(32).toString('base64') }
  const integrations = await started.add(createOurs(options, { logger: onlyTroubles }), (it) => it.close())
  await integrations.migrate()
  const connection = await started.add(Connection.connect({ address: temporalAddress }), (it) => it.close())
  const sql = await started.add(postgres(databaseUrl, { max: 1, onnotice: () => {} }), (it) => it.end({ timeout: 5 }))
  const child = <Offered extends Commands>(name: string) =>
    startChild<Offered>(new URL(`./${name}-process.ts`, import.meta.url), join(logs, `${name}.log`), ['--expose-gc'])
  const worker = await started.add(child<WorkerCommands>('worker'), (it) => it.stop())
  await worker.ask('start', options)
  return {
    integrations,
    temporal: new Client({ connection }),
    sql,
    worker,
    startSandbox: async (entries) => {
      const sandbox = child<SandboxCommands>('sandbox')
      return { url: await sandbox.ask('start', { entries }), stop: () => sandbox.stop() }
    },
  }
}

/** @returns seconds from the start of the run to its end. @throws unless it was right: requests, items, log */
async function runSync({ integrations, temporal, sql, startSandbox }: Stage, entries: number): Promise<number> {
  const sandbox = await startSandbox(entries)
  try {
    const { id } = await integrations.create({
      provider: 'github',
      name: `${entries} entries`,
      credentials: { token: 'sandbox-token' },
      metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: sandbox.url },
    })
    const startedAt = Date.now()
    await integrations.syncs.start(id)
    await temporal.workflow
      .getHandle(workflowId.syncIntegration(integrations.config.cache_prefix, { integrationId: id }))
      .result()
    const endedAt = Date.now()
    await checkRun(sql, id, issuesOf(entries))
    await checkRequests(sandbox.url, requestsOf(entries))
    await sql`delete from integration_sync_items where integration_id = ${id}`
    return (endedAt - startedAt) / 1_000
  } finally {
    await sandbox.stop()
  }
}

async function checkRun(sql: Sql, integrationId: number, issues: number): Promise<void> {
  const [found] = await sql`
    select l.status,
           (select count(*)::int from integration_sync_items i where i.sync_log_id = l.id) as items,
           (select count(*)::int from integration_sync_items i where i.sync_log_id = l.id and i.status = 'success') as done
    from integration_logs l where l.integration_id = ${integrationId} and l.operation = 'sync'`
  if (found?.status !== 'success' || found.items !== issues || found.done !== issues) {
    throw new Error(`${issues} issues should have ended well; found ${JSON.stringify(found)}`)
  }
}

/** Each page once, in order, and nothing else. */
async function checkRequests(url: string, pages: number): Promise<void> {
  const answer = await fetch(`${url}/_sandbox/requests`)
  const { requests } = (await answer.json()) as { requests: LoggedRequest[] }
  const asked = requests.map(({ method, canonicalPath, query }) => `${method} ${canonicalPath} ${query.page ?? '1'}`)
  const expected = Array.from({ length: pages }, (_, at) => `GET ${LIST} ${at + 1}`)
  if (JSON.stringify(asked) !== JSON.stringify(expected)) {
    throw new Error(`pages 1 to ${pages} of ${LIST} should have been asked for; asked was ${JSON.stringify(asked)}`)
  }
}

const onlyTroubles = {
  debug: () => {},
  info: () => {},
  warn: (fields: Record<string, unknown>, message: string) => console.error(message, fields),
  error: (fields: Record<string, unknown>, message: string) => console.error(message, fields),
}
