/** What a delivery costs from the door to its processed row, whatever else is stored: a load of 200 a second, five seconds of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Integration } from 'durable-integrations'
import { closedLoop } from '../closed-loop.ts'
import type { Figure } from '../frame.ts'
import { median, percentile } from '../frame.ts'
import { startMeter } from '../meter.ts'
import { openLoop } from '../open-loop.ts'
import { signedDelivery } from '../webhooks/delivery.ts'
import type { Stage } from '../webhooks/stage.ts'
import { CONNECTIONS, createIntegration, deliveryPath, inboxCost, wallClock } from '../webhooks/stage.ts'

const RATE = { perSecond: 200, seconds: 5 }
const QUICK_RATE = { perSecond: 200, seconds: 1 }
const BURST_SECONDS = 3
const QUICK_BURST_SECONDS = 0.5
const CREATED_AT_ONCE = 20
/** A pump stays for some seconds after its last row; its end is part of the cost. */
const PUMP_ENDS_MS = 6_000
const POLL_MS = 100
const PATIENCE_MS = 180_000

/** One warm-up, which counts for nothing; then the rounds, each in figures of the same names. */
export async function roundsOfDeliveries(
  stage: Stage,
  integrations: readonly Integration[],
  { rounds, quick }: { readonly rounds: number; readonly quick: boolean },
): Promise<Figure[][]> {
  const found: Figure[][] = []
  for (let round = 0; round <= rounds; round += 1) {
    stage.say(round === 0 ? 'warming up' : `round ${round}`)
    found.push([...(await costOfDeliveries(stage, integrations, quick)), await throughput(stage, integrations, quick)])
  }
  return found.slice(1)
}

async function costOfDeliveries(stage: Stage, integrations: readonly Integration[], quick: boolean): Promise<Figure[]> {
  const actionsBefore = (await inboxCost(stage)).actions
  const since = await lastId(stage)
  const used = await startMeter(stage.tables.sql)
  const dueAt = new Map<string, number>()
  await openLoop(quick ? QUICK_RATE : RATE, async () => {
    const delivery = signedDelivery()
    dueAt.set(delivery.id, wallClock())
    await stage.ours.send(deliveryPath(oneOf(integrations)), delivery)
  })
  const took = (await settled(stage, since, dueAt.size)).map(
    ({ deliveryId, processedAtMs }) => processedAtMs - (dueAt.get(deliveryId) ?? Number.NaN),
  )
  await sleep(PUMP_ENDS_MS)
  const { statements, walBytes, cpuMs } = await used()
  const actions = (await inboxCost(stage)).actions - actionsBefore
  const of = (total: number): number => total / dueAt.size
  return [
    { name: 'sent to processed, median', value: median(took), unit: 'ms' },
    { name: 'sent to processed, p99', value: percentile(took, 0.99), unit: 'ms' },
    { name: 'statements', value: of(statements), unit: 'per delivery' },
    { name: 'write-ahead log', value: of(walBytes) / 1_024, unit: 'KiB per delivery' },
    { name: 'processor time', value: of(cpuMs), unit: 'ms per delivery' },
    { name: 'Temporal actions', value: of(actions), unit: 'per delivery' },
  ]
}

/** As many as 50 senders get through, from the first sending to the last processed row. */
async function throughput(stage: Stage, integrations: readonly Integration[], quick: boolean): Promise<Figure> {
  const since = await lastId(stage)
  const startedAt = wallClock()
  const load = { concurrency: CONNECTIONS, seconds: quick ? QUICK_BURST_SECONDS : BURST_SECONDS }
  const { calls } = await closedLoop(load, () => stage.ours.send(deliveryPath(oneOf(integrations)), signedDelivery()))
  const last = (await settled(stage, since, calls)).reduce((at, { processedAtMs }) => Math.max(at, processedAtMs), 0)
  return { name: 'throughput, 50 senders', value: calls / ((last - startedAt) / 1_000), unit: 'webhooks/s' }
}

function oneOf(integrations: readonly Integration[]): Integration {
  return integrations[Math.floor(Math.random() * integrations.length)] as Integration
}

async function lastId({ tables: { sql } }: Stage): Promise<number> {
  const [row] = await sql<{ id: number }[]>`select coalesce(max(id), 0)::float8 as id from integration_webhooks`
  return row?.id ?? 0
}

/** Of the new rows only: what is stored before them may be millions. @throws unless there are so many, all of them processed */
async function settled({ tables: { sql } }: Stage, since: number, rows: number) {
  for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await sleep(POLL_MS)) {
    const found = await sql<{ deliveryId: string; status: string; processedAtMs: number }[]>`
      select delivery_id as "deliveryId", status, extract(epoch from processed_at)::float8 * 1000 as "processedAtMs"
      from integration_webhooks where id > ${since}`
    if (found.length > rows) throw new Error(`${rows} deliveries were answered, ${found.length} are stored`)
    if (found.length === rows && found.every(({ status }) => status === 'processed')) return found
  }
  throw new Error(`${rows} deliveries should have been processed`)
}

export async function createIntegrations(stage: Stage, count: number): Promise<Integration[]> {
  stage.say(`creating ${count} integrations`)
  const made: Integration[] = []
  while (made.length < count) {
    const batch = Array.from({ length: Math.min(CREATED_AT_ONCE, count - made.length) }, () =>
      createIntegration(stage.integrations),
    )
    made.push(...(await Promise.all(batch)))
  }
  await stage.tables.sql`analyze integrations`
  return made
}
