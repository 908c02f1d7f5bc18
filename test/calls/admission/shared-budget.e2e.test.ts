/** Integrations of several real processes that share a budget, judged by the provider's own clock. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sharePostgres } from '../../support/postgres-setup.ts'
import { runShared } from './shared-budget-run.ts'

let postgres: Awaited<ReturnType<typeof sharePostgres>>
beforeAll(async () => {
  postgres = await sharePostgres()
})
afterAll(async () => {
  await postgres?.release()
})

// Beside each other: each has processes, a provider and a database of its own, and lasts for twenty seconds.
it.concurrent('never sends more than the limit, serves all alike, and goes on when a process is killed', async () => {
  const three = { integrations: 8, callers: 2, everyMs: 0 }
  const told = await runShared({
    ...{ limit: 80, seconds: 2, processes: [three, three, three], lastsMs: 20_000, killsAtMs: 14_000 },
    postgresUrl: postgres.url,
  })
  expect(told.most).toBeLessThanOrEqual(80)
  // While all wait: the two processes that live have the share of the third one, too, when it is gone.
  const living = told.tenants.slice(0, 2).flat()
  const mean = living.reduce((sum, { calls }) => sum + calls, 0) / living.length
  expect(mean).toBeGreaterThan(20)
  const calls = living.map((tenant) => tenant.calls)
  // Each has had every round. A process that stands still for less than 2 s loses none.
  expect(Math.min(...calls)).toBeGreaterThanOrEqual(told.rounds)
  expect(Math.min(...calls)).toBeGreaterThanOrEqual(0.7 * mean)
  // Units beyond a round, which the killed process does not fetch, go around.
  expect(Math.max(...calls)).toBeLessThanOrEqual(1.2 * mean)
})

it.concurrent('serves quiet integrations at once beside a greedy one', async () => {
  const greedy = { integrations: 1, callers: 60, everyMs: 0 }
  const quiet = { integrations: 10, callers: 1, everyMs: 1_000 }
  const told = await runShared({
    ...{ limit: 80, seconds: 2, processes: [greedy, quiet], lastsMs: 20_000, postgresUrl: postgres.url },
  })
  const [[big] = [], small = []] = told.tenants
  expect(told.most).toBeLessThanOrEqual(80)
  // 60 callers wait in front of it. In one line with them a call would wait for 1.5 s each time.
  for (const { calls } of small) expect(calls).toBeGreaterThanOrEqual(12)
  // What the quiet ones leave is the greedy one's: some 30 calls a second.
  expect(big?.calls).toBeGreaterThan(350)
})
