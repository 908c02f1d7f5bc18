/** A thousand integrations in four processes, one of which is killed: the limit by the provider's own clock, and the shares. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sharePostgres } from '../../support/postgres-setup.ts'
import { runShared } from './shared-budget-run.ts'

const LIMIT = 2_000
const SECONDS = 10
const PROCESSES = 4

let postgres: Awaited<ReturnType<typeof sharePostgres>>
beforeAll(async () => {
  postgres = await sharePostgres()
})
afterAll(async () => {
  await postgres?.release()
})

const each = { integrations: 1_000 / PROCESSES, callers: 2, everyMs: 0 }

it('gives a thousand integrations of one app the same, and the provider no call too many', async () => {
  const told = await runShared({
    ...{ limit: LIMIT, seconds: SECONDS, processes: Array.from({ length: PROCESSES }, () => each) },
    ...{ lastsMs: 240_000, postgresUrl: postgres.url },
  })
  const calls = told.tenants.flat().map((tenant) => tenant.calls)
  const fair = ((told.lastedMs / 1_000 / SECONDS) * LIMIT) / calls.length
  const worst = Math.min(...calls)
  console.log({ most: told.most, arrived: told.arrived, fair, worst, best: Math.max(...calls) })
  expect(told.most).toBeLessThanOrEqual(LIMIT)
  // Of the whole limit: what units cost on their way is part of it.
  expect(worst).toBeGreaterThanOrEqual(0.9 * fair)
})

it('goes on when a process is killed that holds units', async () => {
  const told = await runShared({
    ...{ limit: LIMIT, seconds: SECONDS, processes: Array.from({ length: PROCESSES }, () => each) },
    ...{ lastsMs: 90_000, killsAtMs: 40_000, postgresUrl: postgres.url },
  })
  const calls = told.tenants
    .slice(0, -1)
    .flat()
    .map((tenant) => tenant.calls)
  const mean = calls.reduce((sum, one) => sum + one, 0) / calls.length
  console.log({ most: told.most, arrived: told.arrived, mean, worst: Math.min(...calls) })
  expect(told.most).toBeLessThanOrEqual(LIMIT)
  // In whole rounds: it is a few calls, however long the run.
  expect(Math.min(...calls)).toBeGreaterThanOrEqual(mean - 4)
})
