/**
 * What a thousand tenants cost that share one inbox, beside a tuned graphile-worker, which knows no tenants.
 * Method and figures: docs/performance.md, "Tenants".
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Integration } from 'durable-integrations'
import { cpuOfDescendants } from '../cpu.ts'
import type { BenchOptions, Comparison, Figure, Goal, Outcome } from '../frame.ts'
import { compare, median, percentile, target } from '../frame.ts'
import { openLoop } from '../open-loop.ts'
import { SCHEMA } from '../webhooks/backlog.ts'
import { signedDelivery } from '../webhooks/delivery.ts'
import type { StoredJob } from '../webhooks/jobs.ts'
import { TASK } from '../webhooks/jobs.ts'
import { PROVIDER } from '../webhooks/ours.ts'
import { startProcesses } from '../webhooks/processes.ts'
import type { Stage } from '../webhooks/stage.ts'
import { createIntegration, deliveryPath, inboxCost, wallClock } from '../webhooks/stage.ts'
import type { Side } from '../webhooks/tables.ts'

interface Size {
  readonly rounds: number
  readonly seconds: number
  readonly integrations: number
  /** 0: left out. */
  readonly many: number
  readonly rates: readonly number[]
  readonly noisyRows: number
  readonly slow: readonly number[]
  readonly idle: number
  readonly countsActions: boolean
}

const FULL: Size = {
  rounds: 3,
  seconds: 8,
  integrations: 1_000,
  many: 10_000,
  rates: [25, 50, 100, 200, 400, 800],
  noisyRows: 20_000,
  slow: [1, 30, 100],
  idle: 40,
  countsActions: true,
}
/** A turn of `all`, which takes the median of five such. */
const ONE_OF_MANY: Size = { ...FULL, rounds: 1, seconds: 4, idle: 8 }
const QUICK: Size = {
  rounds: 1,
  seconds: 4,
  integrations: 200,
  many: 0,
  rates: [200],
  noisyRows: 4_000,
  slow: [],
  idle: 12,
  countsActions: false,
}
const NOT_QUICK = [
  '1,000 and 10,000 integrations (200 are measured)',
  'rates other than 200/s',
  'tenants with handlers of 5 s',
  'Temporal actions',
]

const OVERLOAD = 800
const CREATED_AT_ONCE = 20
const QUIET = { integrations: 100, perSecond: 50 }
const BESIDE_SLOW = { integrations: 20, perSecond: 40 }
const SLOW_ROWS = 40
const BURST_ROWS = 10
/** A pump stays for some seconds after its last row. */
const PUMP_ENDS_MS = 6_000
const PATIENCE_MS = 180_000
const POLL_MS = 250

const atLeast = (value: number): Goal => ({ direction: 'at least', value })
const atMost = (value: number): Goal => ({ direction: 'at most', value })

export async function benchTenants({ quick, rounds, say }: BenchOptions): Promise<Outcome> {
  const size = quick
    ? { ...QUICK, rounds: rounds ?? QUICK.rounds }
    : rounds === 1
      ? ONE_OF_MANY
      : { ...FULL, rounds: rounds ?? FULL.rounds }
  const processes = await startProcesses(
    { rounds: size.rounds, seconds: size.seconds, backlog: 0, idleDeliveries: 0 },
    say,
    'graphile',
  )
  try {
    const stage = await processes.startWorkers()
    say(`creating ${Math.max(size.integrations, size.many)} integrations`)
    const integrations = await create(stage, Math.max(size.integrations, size.many))
    const parts = [
      await measureRates(stage, integrations, size),
      await measureBurst(stage, integrations.slice(0, size.integrations), size),
      await measureNoisy(stage, integrations.slice(0, QUIET.integrations), size),
      ...(size.slow.length > 0
        ? [await measureBesideSlow(stage, integrations.slice(0, BESIDE_SLOW.integrations), size)]
        : []),
      await measureIdle(stage, integrations, size),
    ]
    return {
      figures: parts.flatMap(({ figures }) => figures),
      comparisons: parts.flatMap(({ comparisons }) => comparisons),
      ...(quick ? { leftOut: NOT_QUICK } : {}),
    }
  } finally {
    await processes.stop()
  }
}

type Part = Pick<Outcome, 'figures' | 'comparisons'>
const ms = (name: string, value: number): Figure => ({ name, value, unit: 'ms' })

interface Round {
  readonly median: number
  readonly p99: number
  readonly cpuMs: number
}

/** Ours and the peer in turn; the median of each figure. */
async function inTurnOf(rounds: number, measure: (side: Side) => Promise<Round>): Promise<Record<Side, Round>> {
  const found: Record<Side, Round[]> = { ours: [], peer: [] }
  for (let round = 0; round < rounds; round += 1)
    for (const side of ['ours', 'peer'] as const) found[side].push(await measure(side))
  const of = (side: Side): Round => ({
    median: median(found[side].map((one) => one.median)),
    p99: median(found[side].map((one) => one.p99)),
    cpuMs: median(found[side].map((one) => one.cpuMs)),
  })
  return { ours: of('ours'), peer: of('peer') }
}

async function measureRates(stage: Stage, integrations: readonly Integration[], size: Size): Promise<Part> {
  const figures: Figure[] = []
  const comparisons: Comparison[] = []
  const some = integrations.slice(0, size.integrations)
  // What a first delivery to each costs, such as reading its row, is none of a steady rate's.
  await load(stage, 'ours', some, { perSecond: 200, seconds: 2 })
  let at200 = Number.NaN
  for (const perSecond of size.rates) {
    const name = `${some.length} integrations, ${perSecond}/s`
    stage.say(name)
    const { ours, peer } = await inTurnOf(size.rounds, (side) =>
      load(stage, side, some, { perSecond, seconds: size.seconds }),
    )
    const medians = { ours: ms(`${name}: median`, ours.median), peer: ms(`${name}: peer's median`, peer.median) }
    const p99 = { ours: ms(`${name}: p99`, ours.p99), peer: ms(`${name}: peer's p99`, peer.p99) }
    const cpu = { ours: ms(`${name}: CPU of a delivery`, ours.cpuMs), peer: ms(`${name}: peer's CPU`, peer.cpuMs) }
    figures.push(medians.ours, medians.peer, p99.ours, p99.peer, cpu.ours, cpu.peer)
    if (perSecond === OVERLOAD) comparisons.push(compare(medians.ours, medians.peer, 'ratio', atMost(1)))
    else comparisons.push(target(medians.ours, atMost(Math.max(25, 5 * peer.median))))
    if (peer.p99 <= 100) comparisons.push(target(p99.ours, atMost(100)))
    if (perSecond === 200) {
      at200 = ours.median
      comparisons.push(compare(cpu.ours, cpu.peer, 'ratio', atMost(1.5)))
    }
  }
  if (size.countsActions) comparisons.push(...(await measureActions(stage, some, size.rates)))
  if (size.many > 0) {
    stage.say(`${integrations.length} integrations, 200/s`)
    await load(stage, 'ours', integrations, { perSecond: 400, seconds: integrations.length / 400 })
    const rounds: number[] = []
    for (let round = 0; round < size.rounds; round += 1)
      rounds.push((await load(stage, 'ours', integrations, { perSecond: 200, seconds: size.seconds })).median)
    const many = ms(`${integrations.length} integrations, 200/s: median`, median(rounds))
    comparisons.push(compare(many, ms(`${some.length} integrations`, at200), 'ratio', atMost(2)))
  }
  return { figures, comparisons }
}

/** Of a thousand deliveries in a row at each rate, with what it costs that the inbox starts and ends. */
async function measureActions(
  stage: Stage,
  integrations: readonly Integration[],
  rates: readonly number[],
): Promise<Comparison[]> {
  const comparisons: Comparison[] = []
  await sleep(PUMP_ENDS_MS)
  let before = (await inboxCost(stage)).actions
  for (const perSecond of rates) {
    stage.say(`Temporal actions of 1,000 deliveries, ${perSecond}/s`)
    await load(stage, 'ours', integrations, { perSecond, seconds: 1_000 / perSecond })
    await sleep(PUMP_ENDS_MS)
    const { actions } = await inboxCost(stage)
    const name = `${integrations.length} integrations, ${perSecond}/s: Temporal actions per 1,000`
    comparisons.push(target({ name, value: actions - before, unit: 'actions' }, atMost(15)))
    before = actions
  }
  return comparisons
}

async function measureBurst(stage: Stage, integrations: readonly Integration[], size: Size): Promise<Part> {
  const rows = integrations.length * BURST_ROWS
  stage.say(`a burst of ${BURST_ROWS} rows for each of ${integrations.length}`)
  const rates: Record<Side, number[]> = { ours: [], peer: [] }
  for (let round = 0; round <= size.rounds; round += 1)
    for (const side of ['ours', 'peer'] as const) {
      await stage.tables.clear()
      const ids = side === 'ours' ? integrations.map(({ id }) => id) : [stage.peerIntegrationId]
      await stage.tables.fill(side, ids, side === 'ours' ? BURST_ROWS : rows)
      const startedAt = wallClock()
      await wake(stage, side)
      await stage.tables.untilProcessed(side, rows)
      const rate = rows / (((await stage.tables.lastProcessedAtMs(side)) - startedAt) / 1_000)
      if (round > 0) rates[side].push(rate)
    }
  const figure = (name: string, side: Side): Figure => ({ name, value: median(rates[side]), unit: 'webhooks/s' })
  const comparison = compare(figure('burst: ours', 'ours'), figure('burst: peer', 'peer'), 'ratio', atLeast(1))
  return { figures: [], comparisons: [comparison] }
}

/** 100 quiet tenants beside one with a backlog. */
async function measureNoisy(stage: Stage, quiet: readonly Integration[], size: Size): Promise<Part> {
  stage.say(`${quiet.length} quiet integrations beside ${size.noisyRows} rows of one`)
  const noisy = await createIntegration(stage.integrations)
  const fill = async (side: Side): Promise<void> => {
    await stage.tables.clear()
    await stage.tables.fill(side, [side === 'ours' ? noisy.id : stage.peerIntegrationId], size.noisyRows)
    await wake(stage, side)
  }
  const found = {
    quiet: [] as number[],
    peer: [] as number[],
    p95: [] as number[],
    rate: [] as number[],
    alone: [] as number[],
  }
  const rateOf = async (startedAt: number): Promise<number> => {
    for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await sleep(POLL_MS)) {
      const [row] = await stage.tables.sql<{ rows: number; last: number }[]>`
        select count(*)::int as rows, extract(epoch from max(processed_at))::float8 * 1000 as last
        from integration_webhooks where integration_id = ${noisy.id} and status = 'processed'`
      if (row?.rows === size.noisyRows) return size.noisyRows / ((row.last - startedAt) / 1_000)
    }
    throw new Error('the noisy integration was not worked off')
  }
  for (let round = 0; round < size.rounds; round += 1) {
    const aloneAt = wallClock()
    await fill('ours')
    found.alone.push(await rateOf(aloneAt))
    const startedAt = wallClock()
    await fill('ours')
    const ours = await latencies(stage, 'ours', quiet, { perSecond: QUIET.perSecond, seconds: size.seconds })
    found.quiet.push(median(ours))
    found.p95.push(percentile(ours, 0.95))
    found.rate.push(await rateOf(startedAt))
    await fill('peer')
    found.peer.push(
      median(await latencies(stage, 'peer', quiet, { perSecond: QUIET.perSecond, seconds: size.seconds })),
    )
    await drained(stage)
  }
  const rate = (name: string, values: readonly number[]): Figure => ({
    name,
    value: median(values),
    unit: 'webhooks/s',
  })
  return {
    figures: [],
    comparisons: [
      compare(
        ms('beside a noisy one: median of the quiet', median(found.quiet)),
        ms("beside a noisy one: peer's median", median(found.peer)),
        'ratio',
        atMost(0.3),
      ),
      target(ms('beside a noisy one: p95 of the quiet', median(found.p95)), atMost(200)),
      compare(
        rate('the noisy one beside others', found.rate),
        rate('the noisy one alone', found.alone),
        'ratio',
        atLeast(0.5),
      ),
    ],
  }
}

/** Tenants with quick handlers beside some whose handlers take five seconds. */
async function measureBesideSlow(stage: Stage, quick: readonly Integration[], size: Size): Promise<Part> {
  const comparisons: Comparison[] = []
  const rate = { perSecond: BESIDE_SLOW.perSecond, seconds: size.seconds }
  const slow: Integration[] = []
  for (const tenants of size.slow) {
    stage.say(`${quick.length} integrations beside ${tenants} with handlers of 5 s`)
    while (slow.length < tenants) slow.push(await createIntegration(stage.integrations, PROVIDER.slow))
    await stage.tables.clear()
    const alone = median(await latencies(stage, 'ours', quick, rate))
    await stage.tables.clear()
    await stage.tables.fill(
      'ours',
      slow.map(({ id }) => id),
      SLOW_ROWS,
    )
    await wake(stage, 'ours')
    const beside = median(await latencies(stage, 'ours', quick, rate))
    comparisons.push(target(ms(`beside ${tenants} slow: median`, beside), atMost(Math.max(1.2 * alone, alone + 10))))
    await drained(stage)
  }
  return { figures: [], comparisons }
}

async function measureIdle(stage: Stage, integrations: readonly Integration[], size: Size): Promise<Part> {
  const comparisons: Comparison[] = []
  for (const { gapMs, goal } of [
    { gapMs: 300, goal: 25 },
    { gapMs: 3_000, goal: 30 },
  ]) {
    stage.say(`idle: ${size.idle} deliveries, ${gapMs} ms apart`)
    await stage.tables.clear()
    const sentAt = new Map<string, number>()
    for (let sent = 0; sent < size.idle; sent += 1) {
      const delivery = signedDelivery()
      sentAt.set(delivery.id, wallClock())
      await stage.ours.send(deliveryPath(integrations[sent % integrations.length] as Integration), delivery)
      await sleep(gapMs + Math.random() * 50)
    }
    const took = await tookMs(stage, 'ours', sentAt)
    comparisons.push(target(ms(`idle, ${gapMs} ms apart: median`, median(took)), atMost(goal)))
  }
  return { figures: [], comparisons }
}

async function load(
  stage: Stage,
  side: Side,
  integrations: readonly Integration[],
  rate: { perSecond: number; seconds: number },
): Promise<Round> {
  await stage.tables.clear()
  const before = cpuOfDescendants()
  const took = await latencies(stage, side, integrations, rate)
  return { median: median(took), p99: percentile(took, 0.99), cpuMs: (cpuOfDescendants() - before) / took.length }
}

/** From the moment at which each delivery was due to its processed row, at a constant rate to integrations drawn at random. */
async function latencies(
  stage: Stage,
  side: Side,
  integrations: readonly Integration[],
  rate: { perSecond: number; seconds: number },
): Promise<number[]> {
  const sentAt = new Map<string, number>()
  await openLoop(rate, async () => {
    const to = integrations[Math.floor(Math.random() * integrations.length)] as Integration
    const delivery = signedDelivery()
    sentAt.set(delivery.id, wallClock())
    await stage[side].send(side === 'ours' ? deliveryPath(to) : '/job', delivery)
  })
  return tookMs(stage, side, sentAt)
}

async function tookMs({ tables }: Stage, side: Side, sentAt: ReadonlyMap<string, number>): Promise<number[]> {
  for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await sleep(POLL_MS)) {
    const found = (await tables.processed(side)).flatMap(({ deliveryId, processedAtMs }) => {
      const at = sentAt.get(deliveryId)
      return at === undefined ? [] : [processedAtMs - at]
    })
    if (found.length === sentAt.size) return found
  }
  throw new Error(`${sentAt.size} deliveries should have been processed`)
}

/** Rows that were filled in are told of. */
async function wake({ integrations, tables: { sql } }: Stage, side: Side): Promise<void> {
  if (side === 'ours') await integrations.webhooks.wakePending()
  else
    await sql`
      select count(*) from ${sql(SCHEMA.tuned)}.add_jobs(array(
        select json_populate_record(null::${sql(SCHEMA.tuned)}.job_spec, json_build_object(
          'identifier', ${TASK.stored}::text,
          'payload', json_build_object(
            ${'webhookId' satisfies keyof StoredJob}::text, id, ${'body' satisfies keyof StoredJob}::text, payload)))
        from peer_webhooks order by id))`
}

/** What is left of a scenario is not the next one's. */
async function drained({ tables: { sql } }: Stage): Promise<void> {
  for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await sleep(POLL_MS)) {
    const [row] = await sql<{ rows: number }[]>`
      select (select count(*) from integration_webhooks where status in ('pending', 'processing'))
           + (select count(*) from peer_webhooks where status = 'pending') as rows`
    if (Number(row?.rows) === 0) return
  }
  throw new Error('a scenario was not worked off')
}

async function create(stage: Stage, count: number): Promise<Integration[]> {
  const made: Integration[] = []
  while (made.length < count)
    made.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(CREATED_AT_ONCE, count - made.length) }, () =>
          createIntegration(stage.integrations),
        ),
      )),
    )
  return made
}
