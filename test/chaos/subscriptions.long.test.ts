/**
 * A webhook subscription that ends every 90 seconds, at a server of ours, with two workers. For ten minutes one at a time is killed
 * (SUBSCRIPTION_SECONDS for another time).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { SubscriptionServer } from '../support/subscription-server.ts'
import { startSubscriptionServer } from '../support/subscription-server.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { startChaosStack } from './chaos-stack.ts'
import type { KeptProcess } from './kept-process.ts'
import { seeded, seedOfRun } from './seeded-kills.ts'

const LIFE_SECONDS = 90
const SECONDS = Number(process.env.SUBSCRIPTION_SECONDS ?? 600)
const LONGEST_GAP_MS = 5_000
/** Between two kills: the worker must be back. */
const GAP_MS = { least: 8_000, most: 25_000 }
const GONE_WITHIN_MS = 90_000

let server: SubscriptionServer
let stack: ChaosStack
let workers: KeptProcess[]

beforeAll(async () => {
  server = await startSubscriptionServer({ lifeSeconds: LIFE_SECONDS })
  stack = await startChaosStack({
    hostConfig: new URL('./subscriptions-host.ts', import.meta.url),
    integration: { provider: 'acme', name: 'Acme', credentials: {}, metadata: { server: server.url } },
  })
  workers = [stack.worker, stack.keepWorker('worker-2')]
  await Promise.all(workers.map((worker) => worker.ready()))
})

afterAll(async () => {
  await stack?.stop()
  await server?.close()
})

it(`is missing for 5 s at most, doubled for one repair at most, and gone after disable`, async () => {
  const { integrations, integrationId: id, sql } = stack
  const seed = seedOfRun()
  const random = seeded(seed)
  console.log(`CHAOS_SEED=${seed}`)
  await integrations.webhooks.register(id)
  const beganAtMs = Date.now()
  let kills = 0
  let removals = 0
  while (Date.now() - beganAtMs < SECONDS * 1_000) {
    await sleep(GAP_MS.least + random() * (GAP_MS.most - GAP_MS.least))
    const worker = workers[kills % workers.length] as KeptProcess
    // One at a time: the other one is there.
    await Promise.all(workers.map((one) => one.ready()))
    // Now and then in the very moment in which it renews.
    if (kills % 3 === 0) await renewed(server.requests.length)
    await worker.kill()
    kills += 1
    server.note()
  }
  await Promise.all(workers.map((worker) => worker.ready()))
  server.note()
  const endedAtMs = Date.now()
  const spans = spansOf(server.timeline, beganAtMs, endedAtMs)
  const gaps = spans.filter(({ live }) => live === 0)
  const doubles = spans.filter(({ live }) => live > 1)
  removals += server.requests.filter((method) => method === 'DELETE').length
  console.log(
    `${kills} kills in ${Math.round((endedAtMs - beganAtMs) / 1_000)} s, ${server.requests.filter((one) => one === 'PATCH').length} renewals, ` +
      `missing ${gaps.length} times, longest ${Math.max(0, ...gaps.map(({ ms }) => ms))} ms; two ${doubles.length} times, removals ${removals}`,
  )
  expect(kills).toBeGreaterThan(SECONDS / 60)
  for (const { ms } of gaps) expect(ms).toBeLessThanOrEqual(LONGEST_GAP_MS)
  // Two at the provider are gone with the look that finds them, at the latest at the next renewal.
  for (const { ms, live } of doubles) expect([live, ms <= (LIFE_SECONDS / 2) * 1_000]).toEqual([2, true])

  await integrations.disable(id)
  await expect.poll(() => server.subscriptions.size, { timeout: GONE_WITHIN_MS }).toBe(0)
  const ended = async () => {
    const [row] = await sql`select subscription_id, url, next_check_at from integration_webhook_subscriptions`
    return [row?.subscription_id, row?.url, row?.next_check_at]
  }
  await expect.poll(ended, { timeout: GONE_WITHIN_MS }).toEqual([null, null, null])
  expect(server.subscriptions.size).toBe(0)
})

/** Until the next request reaches the provider, or half of a life is over. */
async function renewed(before: number): Promise<void> {
  const giveUpAt = Date.now() + (LIFE_SECONDS / 2) * 1_000
  while (server.requests.length === before && Date.now() < giveUpAt) await sleep(5)
}

function spansOf(timeline: SubscriptionServer['timeline'], fromMs: number, toMs: number) {
  return timeline.flatMap(({ atMs, live }, at) => {
    const begin = Math.max(atMs, fromMs)
    const end = Math.min(timeline[at + 1]?.atMs ?? toMs, toMs)
    return end > begin ? [{ live, ms: end - begin }] : []
  })
}
