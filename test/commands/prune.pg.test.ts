/** prune, on real rows; the workflow's part is played in this process. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { pruneRows } from '../../src/retention/pruning.ts'
import type { PruneResult, PruningStep } from '../../src/retention/rules.ts'
import { PRUNING_STEPS } from '../../src/retention/rules.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import { runCommand } from './cli/run.ts'

const DAY_MS = 86_400_000

let database: TestDatabase
let test: TestIntegrations
let broken: PruningStep | null
let runs = 0

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {} } })
  Object.assign(test.framework.workflows, { runPrune: pruned })
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  broken = null
  await test.sql`delete from integrations`
})

/** As the workflow does it; a step that is broken has done nothing. */
async function pruned(): Promise<PruneResult> {
  runs += 1
  const signal = new AbortController().signal
  const counts: Partial<Record<PruningStep, number>> = {}
  for (const step of PRUNING_STEPS)
    counts[step] = step === broken ? 0 : await pruneRows(test.framework, { step, runId: `run-${runs}` }, { signal })
  const failed = broken === null ? [] : [{ step: broken, error: 'permission denied for table integration_logs' }]
  return { counts: counts as PruneResult['counts'], failed }
}

async function oldRows(): Promise<void> {
  const { id: integrationId } = await makeIntegration(test, 'plain')
  const { db, tables } = test.framework
  const old = new Date(Date.now() - 400 * DAY_MS)
  await db
    .insert(tables.requests)
    .values([1, 2].map(() => ({ integrationId, endpoint: '/', method: 'GET', createdAt: old })))
  await db.insert(tables.events).values({ integrationId, name: 'CircuitOpened', payload: {}, deliveredAt: old })
}

const run = (...words: string[]) => runCommand(test.integrations, ['prune', ...words])
const NOTHING = {
  requests: 0,
  logs: 0,
  idempotency_keys: 0,
  sync_items: 0,
  incidents_closed: 0,
  incidents: 0,
  cache: 0,
  events: 0,
  webhooks: 0,
  audit: 0,
  failed: [],
}

describe('prune', () => {
  it('counts what goes, in order, and nothing the second time', async () => {
    await oldRows()
    const first = await run('--json')
    expect(first.exitCode).toBe(0)
    expect(first.out).toBe(`${JSON.stringify({ ...NOTHING, requests: 2, events: 1 })}\n`)
    expect((await run('--json')).json()).toEqual(NOTHING)
  })

  it('shows the six counts, and others where there are any', async () => {
    const labels = (out: string) => out.split('\n').flatMap((line) => /^(.*\S)\s+\d+\s*$/.exec(line)?.slice(1) ?? [])
    const six = ['requests', 'logs', 'idempotency keys', 'completed items', 'incidents closed', 'incidents pruned']
    expect(labels((await run()).out)).toEqual(six)
    await oldRows()
    const { out, err } = await runCommand(test.integrations, ['prune'], { answers: {} })
    expect(labels(out)).toEqual([...six, 'delivered events'])
    expect(out).toMatch(/requests\s+2\b/)
    expect(err).toContain('Waiting for a worker')
  })

  it('with --dry-run only counts, and asks no worker', async () => {
    await oldRows()
    Object.assign(test.framework.workflows, { runPrune: () => expect.unreachable('a worker was asked') })
    try {
      expect((await run('--dry-run', '--json')).json()).toEqual({ ...NOTHING, requests: 2, events: 1 })
      expect((await run('--dry-run')).out).toContain('To prune')
    } finally {
      Object.assign(test.framework.workflows, { runPrune: pruned })
    }
    expect((await run('--json')).json()).toEqual({ ...NOTHING, requests: 2, events: 1 })
  })

  it('ends with 1 when a step failed, and says what the others did', async () => {
    await oldRows()
    broken = 'logs'
    const ran = await run('--json')
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toEqual({
      ...NOTHING,
      requests: 2,
      events: 1,
      failed: [{ step: 'logs', error: 'permission denied for table integration_logs' }],
    })
    expect((await run()).err).toContain('logs: failed, and the next run goes on: permission denied')
  })
})
