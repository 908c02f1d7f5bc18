/** Failure rates and statistics over a million requests of ten thousand integrations within the window. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { evaluateFailureRates } from '../../src/incidents/anomalies.ts'
import { healthReport } from '../../src/integrations/health-report.ts'
import { statistics } from '../../src/observability/statistics.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'

const INTEGRATIONS = 10_000
const REQUESTS = 1_000_000
/** Each so many integrations fail, and all of their requests do. */
const FAILING_EVERY = 20
/** An evaluation comes each minute: it must be over well before the next one. */
const MAX_EVALUATION_SECONDS = 20

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {} } })
  await test.sql`insert into integrations (provider, name, credentials)
    select 'plain', 'of a test', 'sealed' from generate_series(1, ${INTEGRATIONS}::int)`
  // A million of the six hours before the window, and a million of its last 500 s: making them takes a minute or two.
  await test.sql`insert into integration_requests (integration_id, endpoint, method, duration_ms, created_at, failure_class, error)
    select id, 'users', 'GET', 1 + (n % 2000 * 7919) % 2000, clock_timestamp() - make_interval(secs => at),
           case when id % ${FAILING_EVERY}::int = 0 then 'upstream' end, case when id % ${FAILING_EVERY}::int = 0 then 'HttpError: 503' end
    from (
      select n, 1 + n % ${INTEGRATIONS}::int as id, 900 + n * 0.0216 as at from generate_series(1, ${REQUESTS}::int) n
      union all
      select n, 1 + n % ${INTEGRATIONS}::int as id, n * 0.0005 as at from generate_series(1, ${REQUESTS}::int) n
    ) made`
  // As autovacuum would, a little later.
  await test.sql`vacuum analyze integration_requests`
  await test.sql`vacuum analyze integrations`
})
afterAll(async () => {
  await test.close()
  await database.drop()
})

async function timed<T>(what: string, work: () => Promise<T>): Promise<{ result: T; seconds: number }> {
  const began = performance.now()
  const result = await work()
  const seconds = (performance.now() - began) / 1_000
  console.log(`${what}: ${seconds.toFixed(2)} s`)
  return { result, seconds }
}

it('evaluates them in time, with edges and without, and counts right', async () => {
  test.framework.listeners.on('ElevatedFailureRate', () => {}, { queued: true })
  const rising = await timed('evaluation with 500 edges', () => evaluateFailureRates(test.framework))
  expect(rising.result).toMatchObject({ enabled: true, checked: INTEGRATIONS, recovered: [] })
  expect(rising.result.elevated).toHaveLength(INTEGRATIONS / FAILING_EVERY)
  expect(rising.result.elevated.every(({ failureRate }) => failureRate === 100)).toBe(true)
  const [{ count } = { count: 0 }] = await test.sql`select count(*)::int from integration_events`
  expect(count).toBe(INTEGRATIONS / FAILING_EVERY)
  const steady = await timed('evaluation without edges', () => evaluateFailureRates(test.framework))
  expect(steady.result).toEqual({ enabled: true, checked: INTEGRATIONS, elevated: [], recovered: [] })
  expect(Math.max(rising.seconds, steady.seconds)).toBeLessThan(MAX_EVALUATION_SECONDS)
})

it('counts the statistics of all, and the report of one', async () => {
  const { result } = await timed('statistics of two million requests', () => statistics(test.framework))
  expect(result).toMatchObject({ requests: 2 * REQUESTS, errorRate: 100 / FAILING_EVERY, meanMs: 1_001, p95Ms: 1_900 })
  const one = await timed('report of one of ten thousand', () => healthReport(test.framework, FAILING_EVERY))
  expect(one.result).toMatchObject({ requests24h: (2 * REQUESTS) / INTEGRATIONS, errorRate24h: 100 })
  expect(one.seconds).toBeLessThan(1)
})
