/** A thousand integrations in four processes, one of which is killed: the limit by the provider's own clock, and the shares. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sharePostgres } from '../../support/postgres-setup.ts'
import { runShared } from './shared-budget-run.ts'

const LIMIT = 800
const SECONDS = 4
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
    ...{ lastsMs: 110_000, postgresUrl: postgres.url },
  })
  const calls = told.tenants.flat().map((tenant) => tenant.calls)
  const mean = told.arrived / calls.length
  const worst = Math.min(...calls)
  const used = told.arrived / ((told.lastedMs / 1_000 / SECONDS) * LIMIT)
  console.log({ most: told.most, arrived: told.arrived, used, mean, worst, best: Math.max(...calls) })
  expect(told.most).toBeLessThanOrEqual(LIMIT)
  expect(worst).toBeGreaterThanOrEqual(0.9 * mean)
  expect(used).toBeGreaterThan(0.9)
})

it('goes on when a process is killed that holds units', async () => {
  const told = await runShared({
    ...{ limit: LIMIT, seconds: SECONDS, processes: Array.from({ length: PROCESSES }, () => each) },
    ...{ lastsMs: 60_000, killsAtMs: 20_000, postgresUrl: postgres.url },
  })
  const calls = told.tenants
    .slice(0, -1)
    .flat()
    .map((tenant) => tenant.calls)
  const mean = calls.reduce((sum, one) => sum + one, 0) / calls.length
  console.log({ most: told.most, arrived: told.arrived, mean, worst: Math.min(...calls) })
  expect(told.most).toBeLessThanOrEqual(LIMIT)
  expect(Math.min(...calls)).toBeGreaterThanOrEqual(0.85 * mean)
})
