/**
 * How long an operator waits for the life of a record, the failures of a day and the lists of an owner without rows, in a deployment
 * with a million requests and a million items. Method and figures: docs/performance.md, "Operators".
 */
import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import type { Integrations, IntegrationsAdmin } from 'durable-integrations'
import { createIntegrations } from 'durable-integrations'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { foldFigures } from '../all/fold.ts'
import type { BenchOptions, Figure, Goal, Outcome } from '../frame.ts'
import { percentile, target } from '../frame.ts'
import { startBenchPostgres } from '../postgres.ts'
import { Started } from '../started.ts'
import type { Size } from './fill.ts'
import { fill } from './fill.ts'

const FULL = { integrations: 1_000, requests: 1_000_000, items: 1_000_000 } satisfies Size
const QUICK = { integrations: 100, requests: 50_000, items: 50_000 } satisfies Size
const NOT_QUICK = ['a million requests and items (50,000 are measured)']

/** Of every kind of reference. */
const ROWS = 1_000
const QUICK_ROWS = 50
const QUESTIONS = 40
/** Has one integration, and no rows. */
const NEWCOMER = { type: 'team', id: 1_000_000 }

const GOALS = {
  explain: { direction: 'at most', value: 50 },
  failures: { direction: 'at most', value: 200 },
  lists: { direction: 'at most', value: 20 },
} as const satisfies Record<string, Goal>

export async function benchOperator({ quick, rounds = 1, say }: BenchOptions): Promise<Outcome> {
  const started = new Started()
  try {
    say('starting Postgres')
    const server = await started.add(startBenchPostgres(), (running) => running.stop())
    const integrations = await started.add(
      createIntegrations({
        database: server.url,
        encryptionKeys: `bench:${randomBytes(32).toString('base64')}`,
        providers: {},
        logger: { debug: () => {}, info: () => {}, warn: shown, error: shown },
      }),
      (running) => running.close(),
    )
    await integrations.migrate()
    const sql = await started.add(postgres(server.url, { max: 1, fetch_types: false, onnotice: () => {} }), (running) =>
      running.end({ timeout: 5 }),
    )
    await fill(sql, quick ? QUICK : FULL, say)
    await sql`insert into integrations (provider, name, credentials, owner_type, owner_id)
      values ('p0', 'new', 'none', ${NEWCOMER.type}, ${NEWCOMER.id})`
    const { admin } = integrations
    const sweeps: Figure[][] = []
    for (let round = 0; round < rounds; round += 1)
      sweeps.push([
        ...(await measureExplain(admin, sql, quick ? QUICK_ROWS : ROWS, say)),
        ...(await measureFailures(admin, say)),
        ...(await measureLists(integrations, NEWCOMER, say)),
      ])
    const figures = foldFigures(sweeps)
    return {
      figures,
      comparisons: figures
        .filter(({ name }) => name.endsWith('p95'))
        .map((p95) => target(p95, GOALS[p95.name.split(',')[0] as keyof typeof GOALS])),
      ...(quick ? { leftOut: NOT_QUICK } : {}),
    }
  } finally {
    await started.stop()
  }
}

/** By kind of reference, how random ones are read. */
const REFERENCES: Readonly<Record<string, { readonly text: string; readonly of: string; readonly where?: string }>> = {
  integration: { text: `'integration:' || id`, of: 'integrations' },
  webhook: { text: `'webhook:' || id`, of: 'integration_webhooks' },
  item: { text: `'item:' || id`, of: 'integration_sync_items' },
  run: { text: `'run:' || id`, of: 'integration_logs', where: `operation = 'sync'` },
  request: { text: `'request:' || id`, of: 'integration_requests' },
  log: { text: `'log:' || id`, of: 'integration_logs' },
  incident: { text: `'incident:' || id`, of: 'integration_incidents' },
  event: { text: `'event:' || id`, of: 'integration_events' },
  mapping: { text: `'mapping:' || id`, of: 'integration_mappings' },
  'host’s row': { text: `internal_type || ':' || internal_id`, of: 'integration_mappings' },
  'delivery id': { text: 'delivery_id', of: 'integration_webhooks' },
  'external id': { text: 'external_id', of: 'integration_sync_items' },
  'provider’s request id': { text: 'provider_request_id', of: 'integration_requests' },
  'idempotency key': { text: 'idempotency_key', of: 'integration_requests', where: 'idempotency_key is not null' },
  'workflow id': { text: `'sync:' || id`, of: 'integrations', where: `owner_id < ${NEWCOMER.id}` },
}

async function measureExplain(
  admin: IntegrationsAdmin,
  sql: Sql,
  rows: number,
  say: (line: string) => void,
): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [kind, { text, of, where = 'true' }] of Object.entries(REFERENCES)) {
    say(`explain(), by ${kind}`)
    const references = await sql.unsafe<{ reference: string }[]>(
      `select ${text} as reference from ${of} where ${where} order by random() limit ${rows}`,
    )
    const times: number[] = []
    for (const { reference } of references) {
      const startedAt = performance.now()
      // Nothing that is found, or several of them: each is an answer. An error ends the bench.
      await admin.explain(reference)
      times.push(performance.now() - startedAt)
    }
    figures.push({ name: `explain, ${kind}: p50`, value: percentile(times, 0.5), unit: 'ms' })
    const p95: Figure = { name: `explain, ${kind}: p95`, value: percentile(times, 0.95), unit: 'ms' }
    figures.push(p95)
  }
  return figures
}

function measureFailures(admin: IntegrationsAdmin, say: (line: string) => void): Promise<Figure[]> {
  const questions: Readonly<Record<string, (n: number) => Promise<unknown>>> = {
    'of all': () => admin.failures(),
    'of an integration': (n) => admin.failures({ integrationId: 1 + n }),
    'of an owner': (n) => admin.failures({ owner: { type: 'team', id: 1 + n } }),
    'of a provider': (n) => admin.failures({ provider: `p${n % 10}` }),
  }
  return measureQuestions('failures', questions, say)
}

/** A walk from the newest row would find none of this owner's, and end at the oldest row of all. */
function measureLists(
  { admin, syncs, webhooks }: Integrations,
  owner: { readonly type: string; readonly id: number },
  say: (line: string) => void,
): Promise<Figure[]> {
  const filter = { owner, limit: 51 }
  const lists = { webhooks: webhooks.list, items: admin.syncItems.list, runs: syncs.runs }
  const questions = Object.entries(lists).map(([list, ask]) => [
    `${list} of an owner without rows`,
    async () => {
      for await (const row of ask(filter)) throw new Error(`row ${row.id} is of no owner without rows`)
    },
  ])
  return measureQuestions('lists', Object.fromEntries(questions), say)
}

async function measureQuestions(
  about: string,
  questions: Readonly<Record<string, (n: number) => Promise<unknown>>>,
  say: (line: string) => void,
): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [which, ask] of Object.entries(questions)) {
    say(`${about}, ${which}`)
    const times: number[] = []
    for (let n = 0; n < QUESTIONS; n += 1) {
      const startedAt = performance.now()
      await ask(n)
      times.push(performance.now() - startedAt)
    }
    figures.push({ name: `${about}, ${which}: p50`, value: percentile(times, 0.5), unit: 'ms' })
    figures.push({ name: `${about}, ${which}: p95`, value: percentile(times, 0.95), unit: 'ms' })
  }
  return figures
}

function shown(fields: Record<string, unknown>, message: string): void {
  console.error(message, fields)
}
