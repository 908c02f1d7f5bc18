/** A fleet at work, in the size that a test asks for: what each of its processes did, and that nothing was done twice or not at all. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { expect } from 'vitest'
import { scheduleId } from '../../src/workflows/ids.ts'
import { CALLS_EVERY, pagesOf } from './fleet-provider.ts'
import type { FleetSent } from './fleet-sender.ts'
import { sendToFleet, TWICE_EVERY } from './fleet-sender.ts'
import type { FleetStack } from './fleet-stack.ts'
import { allSettled, readLedger } from './ledger.ts'
import { runEnded } from './sync-ledger.ts'
import { checkpointOf } from './sync-plan.ts'

/** Asked for at the same moment, from a Schedule and by the command. */
const DISPATCHES = 3
const POLL_MS = 50

export interface FleetPlan {
  readonly deliveries: number
  readonly ratePerSecond: number
  readonly entries: number
  /** So many batches that each worker has some of them. */
  readonly spreadsItems: boolean
  /** One worker is asked to end, as a deployment does, once a third of the webhooks is processed. */
  readonly replacesWorker: boolean
  /** After the last answer. */
  readonly settledWithinSeconds: number
}

/** Starts the sync, sends the webhooks while it runs, waits for the end of both, and counts. */
export async function workTogether(stack: FleetStack, plan: FleetPlan): Promise<void> {
  const startedAt = performance.now()
  const listedId = await startListed(stack)
  const [sent] = await Promise.all([
    sendToFleet({ ...plan, apis: stack.apis, paths: stack.webhookPaths }),
    plan.replacesWorker ? replaceWorker(stack, plan.deliveries / 3) : undefined,
  ])
  await allSettled(stack, plan.settledWithinSeconds)
  await runEnded(stack, plan.settledWithinSeconds)
  console.log(await whoDidWhat(stack, sent))
  console.log(`${secondsSince(startedAt)} s in all`)
  await expectWebhooksOnce(stack, plan, sent)
  await expectItemsOnce(stack, plan, listedId)
  await expectCallsLogged(stack, plan)
  if (plan.spreadsItems) await expectItemsSpread(stack)
}

/** The sync is due, and asked for by everyone at once: by the Schedule that three workers have made, and by the command. */
async function startListed({ createListed, integrations, temporalAddress }: FleetStack): Promise<number> {
  const { id } = await createListed()
  const connection = await Connection.connect({ address: temporalAddress })
  try {
    const schedules = new Client({ connection }).schedule
    const schedule = schedules.getHandle(scheduleId(integrations.config.cache_prefix, 'dispatch-syncs'))
    await Promise.all(
      Array.from({ length: DISPATCHES }, () => Promise.all([schedule.trigger(), integrations.syncs.dispatch()])),
    )
  } finally {
    await connection.close()
  }
  return id
}

async function replaceWorker({ sql, workers }: FleetStack, afterWebhooks: number): Promise<void> {
  for (;;) {
    const [row] = await sql<{ count: number }[]>`select count(*)::int as count from handler_runs`
    if ((row?.count ?? 0) >= afterWebhooks) break
    await sleep(POLL_MS)
  }
  const askedAt = performance.now()
  await workers[1]?.terminate()
  // Another is started, and takes its share when it is ready.
  console.log(`${workers[1]?.name} ended ${secondsSince(askedAt)} s after SIGTERM`)
}

async function expectWebhooksOnce(stack: FleetStack, { deliveries }: FleetPlan, sent: FleetSent): Promise<void> {
  // Whoever gets an answer gets a 200, also the second of two that come at once.
  const both = Math.ceil(deliveries / TWICE_EVERY)
  const accepted = sent.answers.map((answers) => answers['200'] ?? 0)
  expect(accepted.reduce((sum, count) => sum + count, 0)).toBe(deliveries + both)
  for (const count of accepted) expect(count).toBeGreaterThanOrEqual(Math.floor(deliveries / accepted.length))
  for (const answers of sent.answers) expect(['200', 'no answer']).toEqual(expect.arrayContaining(Object.keys(answers)))
  const { rows, faults } = await readLedger({ sql: stack.sql, answered: new Set(sent.deliveryIds) })
  expect(faults).toEqual([])
  expect(rows).toBe(deliveries)
  // With the names of those who ran it, so that it can be seen whether one took over from another.
  const ranAgain = await stack.sql`
    select delivery_id, array_agg(member order by attempt) as members, array_agg(attempt order by attempt) as attempts
    from handler_runs group by 1 having count(*) > 1`
  const lost = stack.lines.filter((line) => /"(webhook.worker_lost|inbox.pump_lost)"/.test(line)).length
  expect(
    [...ranAgain],
    `${lost} times a worker was taken for lost, as it is when a machine stands still for 20 s`,
  ).toEqual([])
  const runs = await stack.sql`select count(*)::int as count from handler_runs`
  expect(runs[0]).toEqual({ count: deliveries })
}

async function expectItemsOnce({ sql }: FleetStack, { entries }: FleetPlan, integrationId: number): Promise<void> {
  const items = await sql`
    select count(*)::int as rows, count(distinct external_id)::int as entries,
      count(*) filter (where status = 'success' and attempts = 1 and claim is null and error is null)::int as done
    from integration_sync_items`
  expect(items[0]).toEqual({ rows: entries, entries, done: entries })
  const runs = await sql`select count(*)::int as runs, count(distinct n)::int as entries from entry_runs`
  expect(runs[0]).toEqual({ runs: entries, entries })
  const logs =
    await sql`select integration_id::int as id, status, metadata from integration_logs where operation = 'sync'`
  expect(logs).toHaveLength(1)
  const end = checkpointOf(entries)
  expect(logs[0]).toMatchObject({
    id: integrationId,
    status: 'success',
    metadata: { listed: entries, success_count: entries, failure_count: 0, cursor_after: end },
  })
  const [row] = await sql`select sync_cursor as cursor from integrations where id = ${integrationId}`
  expect(row?.cursor).toBe(end)
  expect(await sql`select from listings`).toHaveLength(1)
}

/** A row for each request that reached the provider, and no other; each page was asked for once, in order. */
async function expectCallsLogged({ sql, provider }: FleetStack, { deliveries, entries }: FleetPlan): Promise<void> {
  expect(provider.requests.filter((path) => path.startsWith('/items/'))).toEqual(pagesOf(entries))
  const ofHandlers = Math.ceil(deliveries / CALLS_EVERY)
  const ofListeners = Math.floor(entries / CALLS_EVERY)
  expect(provider.requests).toHaveLength(pagesOf(entries).length + ofHandlers + ofListeners)
  expect(new Set(provider.requests).size).toBe(provider.requests.length)
  const rows = await sql<{ endpoint: string }[]>`select endpoint from integration_requests`
  expect(rows.map(({ endpoint }) => endpoint).sort()).toEqual([...provider.requests].sort())
}

interface Share {
  member: string
  webhooks: number
  items: number
  listings: number
}

function shares({ sql }: FleetStack) {
  return sql<Share[]>`
    select member, sum(webhooks)::int as webhooks, sum(items)::int as items, sum(listings)::int as listings from (
      select member, 1 as webhooks, 0 as items, 0 as listings from handler_runs
      union all select member, 0, 1, 0 from entry_runs
      union all select member, 0, 0, 1 from listings
    ) done group by member order by member`
}

/**
 * Each worker had items: a sync's batches go to the worker that has waited longest. Webhooks are one pump's while its lanes take what
 * comes. docs/behaviour/workers.md, "How work spreads".
 */
async function expectItemsSpread(stack: FleetStack): Promise<void> {
  const done = await shares(stack)
  expect(done.map(({ member }) => member)).toEqual(stack.workers.map(({ name }) => name))
  for (const share of done) expect(share.items, JSON.stringify(share)).toBeGreaterThan(0)
}

async function whoDidWhat(stack: FleetStack, { answers }: FleetSent): Promise<string> {
  return [
    ...answers.map((counts, index) => `api-${index + 1}: answered ${JSON.stringify(counts)}`),
    ...(await shares(stack)).map(
      ({ member, webhooks, items, listings }) =>
        `${member}: ${webhooks} webhooks, ${items} items, ${listings} listings`,
    ),
    `provider: ${stack.provider.requests.length} requests`,
  ].join('\n')
}

function secondsSince(from: number): number {
  return Math.round((performance.now() - from) / 100) / 10
}
