/** What the soak does to the system: deliveries, syncs by hand, pruning. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { closedLoop } from '../../bench/closed-loop.ts'
import { createIntegrations, partsOf } from '../../src/create-integrations.ts'
import { isIntegrationsError } from '../../src/provider.ts'
import { pruneRows } from '../../src/retention/pruning.ts'
import type { PruningStep } from '../../src/retention/rules.ts'
import { PRUNING_STEPS } from '../../src/retention/rules.ts'
import { allSettled } from '../chaos/ledger.ts'
import type { Tally } from '../chaos/signed-sender.ts'
import { deliver } from '../chaos/signed-sender.ts'
import type { SoakStack } from './stack.ts'
import type { Delivery } from './world.ts'
import { EVENTS, SOAK_CONFIG } from './world.ts'

const BATCH_EVERY = 20
const FILLER = 'x'.repeat(1_000)
const SYNC_EVERY_MS = 1_000
const POLL_MS = 1_000
const SETTLED_SECONDS = 300
const DAY_SECONDS = 86_400
const CALLERS = 32
const WARM_UP_SECONDS = 10
const CALIBRATION_SECONDS = 20

/** What was answered 2xx so far. */
export interface Sent extends Tally {
  /** Webhooks: each event of a delivery of many is one. */
  webhooks: number
  /** Milliseconds until each answer, since they were taken last. */
  answersMs: number[]
}

/** One delivery, until it is answered 2xx. @throws when it is not for two minutes */
export async function sendDelivery({ urls }: Pick<SoakStack, 'urls'>, sent: Sent, n: number): Promise<void> {
  const id = randomUUID()
  const isBatch = n % BATCH_EVERY === 0
  const startedAt = performance.now()
  const body = JSON.stringify({ id, n, filler: FILLER } satisfies Delivery)
  await deliver(() => urls[isBatch ? 'batch' : 'shop'], { deliveryId: id, body }, sent)
  sent.answersMs.push(performance.now() - startedAt)
  sent.webhooks += isBatch ? EVENTS : 1
}

/** As many deliveries as pass through the whole system, those who send them and the provider's server beside it. @returns a second */
export async function measureCapacity(stack: SoakStack, sent: Sent): Promise<number> {
  await closedLoop({ concurrency: CALLERS, seconds: WARM_UP_SECONDS }, (n) => sendDelivery(stack, sent, n))
  await allSettled(stack, SETTLED_SECONDS)
  const startedAt = performance.now()
  const load = { concurrency: CALLERS, seconds: CALIBRATION_SECONDS }
  const { calls } = await closedLoop(load, (n) => sendDelivery(stack, sent, n))
  await allSettled(stack, SETTLED_SECONDS)
  return calls / ((performance.now() - startedAt) / 1_000)
}

export interface Until {
  isOver(): boolean
}

/** @returns how many times Temporal did not answer in time */
export async function syncAllTheTime({ crms, integrations }: SoakStack, { isOver }: Until): Promise<number> {
  let unanswered = 0
  for (let n = 0; !isOver(); n += 1) {
    try {
      await integrations.syncs.start(crms[n % crms.length] as number)
    } catch (error) {
      // On a machine that is this busy Temporal may answer too late. It is told, and an hour is not thrown away for it.
      if (!isIntegrationsError(error, 'backend_unreachable')) throw error
      unanswered += 1
    }
    await sleep(SYNC_EVERY_MS)
  }
  return unanswered
}

/** Retentions that are counted in days: the clock is ahead by all of them but `retentionSeconds`. */
const AHEAD_DAYS: Readonly<Record<PruningStep, number>> = {
  requests: 1,
  logs: 1,
  idempotency_keys: 1,
  sync_items: 1,
  incidents_closed: 0,
  incidents: 1,
  // By its own moment: a lock is not to go before its time.
  cache: 0,
  events: 7,
  webhooks: 1,
  audit: 1,
}

/** The activities of the workflow `prune`, one after the other, so that tables come to a steady size within the soak. */
export async function pruneAllTheTime(retentionSeconds: number, { isOver }: Until): Promise<void> {
  const everyMs = (retentionSeconds * 1_000) / 3
  await pruning(async (prune) => {
    for (let dueAt = performance.now() + everyMs; !isOver(); await sleep(POLL_MS))
      if (performance.now() >= dueAt) {
        await prune(retentionSeconds)
        dueAt += everyMs
      }
  })
}

/** What capacity was measured with goes, and its space with it: else tables would fill that all the time, and not show that they grow. */
export async function emptyTables({ sql }: Pick<SoakStack, 'sql'>): Promise<void> {
  await pruning((prune) => prune(0))
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`
  for (const { name } of tables) await sql`vacuum full ${sql(name)}`
}

async function pruning(use: (prune: (retentionSeconds: number) => Promise<void>) => Promise<void>): Promise<void> {
  let aheadSeconds = 0
  const integrations = createIntegrations({
    config: SOAK_CONFIG,
    providers: { shop: {} },
    clock: { now: () => new Date(Date.now() + aheadSeconds * 1_000) },
    logger: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
  })
  try {
    const { framework } = partsOf(integrations)
    await use(async (retentionSeconds) => {
      const runId = randomUUID()
      for (const step of PRUNING_STEPS) {
        const days = AHEAD_DAYS[step]
        aheadSeconds = days === 0 ? 0 : days * DAY_SECONDS - retentionSeconds
        await pruneRows(framework, { step, runId }, { signal: new AbortController().signal })
      }
    })
  } finally {
    await integrations.close()
  }
}
