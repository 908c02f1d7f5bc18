/** Incidents as they are listed and shown. Rule: docs/behaviour/incidents.md, "Looking". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { IncidentNotFound } from '../../src/framework/errors.ts'
import { pageOfIncidents } from '../../src/incidents/list.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration } from '../support/rows.ts'

const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')
const CLOSED = { status: 'closed', closedAt: AT } as const

let database: TestDatabase
let test: TestIntegrations
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  integration = await makeIntegration(test, 'acme', { name: 'ours', owner: { type: 'team', id: 7 } })
})

type Filter = Parameters<TestIntegrations['integrations']['admin']['incidents']['list']>[0]

async function idsOf(filter: Filter): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of test.integrations.admin.incidents.list(filter)) ids.push(id)
  return ids
}

describe('one incident', () => {
  it('is shown with whose it is', async () => {
    const { id } = await makeIncident(test, integration.id, {
      source: 'circuit',
      reason: 'threshold_reached',
      peakSeverity: 'failing',
      openedAt: BEFORE,
      lastErrorAt: AT,
    })
    expect(await test.integrations.admin.incidents.get(id)).toEqual({
      id,
      integrationId: integration.id,
      provider: 'acme',
      integrationName: 'ours',
      status: 'open',
      source: 'circuit',
      reason: 'threshold_reached',
      peakSeverity: 'failing',
      openedAt: BEFORE,
      lastErrorAt: AT,
      closedAt: null,
      acknowledgedAt: null,
      acknowledgedBy: null,
      snoozedUntil: null,
      snoozedBy: null,
      annotations: [],
    })
  })

  it.each([0, 1.5, 999_999_999])('of the id %s is not found', async (id) => {
    await expect(test.integrations.admin.incidents.get(id)).rejects.toBeInstanceOf(IncidentNotFound)
  })
})

describe('the list', () => {
  it('is the newest first, however many there are, and goes on after an id', async () => {
    await test.sql`
      insert into integration_incidents (integration_id, status, source, reason, peak_severity, opened_at, closed_at)
      select ${integration.id}, 'closed', 'sync', 'sync_stale', 'failing', now(), now() from generate_series(1, 250)`
    const ids = await idsOf({})
    expect(ids).toHaveLength(250)
    expect(ids).toEqual([...ids].sort((a, b) => b - a))
    expect(await idsOf({ limit: 2 })).toEqual(ids.slice(0, 2))
    expect(await idsOf({ after: ids[1] as number, limit: 1 })).toEqual([ids[2]])
  })

  it.each<[string, Filter, readonly number[]]>([
    ['status open', { status: 'open' }, [3, 2]],
    ['status closed', { status: 'closed' }, [1, 0]],
    ['source', { source: 'sync' }, [3, 1]],
    ['since, inclusive', { since: AT }, [3, 1]],
    ['until, exclusive', { until: AT }, [2, 0]],
    ['a period without a moment', { since: AT, until: AT }, []],
    ['owner', { owner: { type: 'team', id: 7 } }, [2, 1, 0]],
    ['all of them at once', { status: 'closed', source: 'sync', since: AT, owner: { type: 'team', id: 7 } }, [1]],
  ])('by %s', async (_, filter, expected) => {
    const other = await makeIntegration(test, 'acme', { owner: { type: 'team', id: 8 } })
    const made = [
      await makeIncident(test, integration.id, { ...CLOSED, openedAt: BEFORE }),
      await makeIncident(test, integration.id, { ...CLOSED, source: 'sync', openedAt: AT }),
      await makeIncident(test, integration.id, { openedAt: BEFORE }),
      await makeIncident(test, other.id, { source: 'sync', openedAt: AT }),
    ]
    expect(await idsOf(filter)).toEqual(expected.map((index) => made[index]?.id))
  })

  it('by integration', async () => {
    const other = await makeIntegration(test, 'acme')
    const { id } = await makeIncident(test, other.id)
    await makeIncident(test, integration.id)
    expect(await idsOf({ integrationId: other.id })).toEqual([id])
  })

  it.each<[string, Record<string, unknown>]>([
    ['integrationId', { integrationId: 0 }],
    ['status', { status: 'lost' }],
    ['source', { source: 'weather' }],
    ['owner', { owner: { type: '', id: 1 } }],
    ['owner', { owner: null }],
    ['since', { since: new Date('never') }],
    ['until', { since: AT, until: BEFORE }],
    ['after', { after: 0 }],
    ['limit', { limit: 0 }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.admin.incidents.list(filter)).toThrow(expect.objectContaining({ argument }))
  })

  it('finds the few open ones among many closed ones by an index', async () => {
    await test.sql`
      insert into integration_incidents (integration_id, status, source, reason, peak_severity, opened_at, closed_at)
      select ${integration.id}, 'closed', 'sync', 'sync_stale', 'failing', now(), now() from generate_series(1, 20000)`
    await makeIncident(test, integration.id)
    await test.sql`analyze integration_incidents`
    const { db, tables } = test.framework
    const statement = pageOfIncidents(db, tables, { status: 'open' }, { below: undefined, limit: 50 }).toSQL()
    const plan = await test.sql.unsafe(`explain ${statement.sql}`, statement.params as never[])
    const text = plan.map((row) => row['QUERY PLAN']).join('\n')
    expect(text).not.toContain('Seq Scan on integration_incidents')
    expect(text).toMatch(/_incidents_(open_idx|one_open_key)/)
  })
})
