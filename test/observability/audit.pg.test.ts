/** The audit on real tables. Rule: docs/behaviour/audit.md. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { AuditEntry, ListAudit } from '../../src/observability/audit.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider(), other: webhookProvider() } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`truncate integration_audit`
})

async function entries(filter: ListAudit = {}): Promise<AuditEntry[]> {
  const found: AuditEntry[] = []
  for await (const entry of test.integrations.admin.audit.list(filter)) found.push(entry)
  return found
}

const OWNER = { type: 'team', id: 7 }

describe('the audit', () => {
  it('keeps who did what to which integration, from where, after the integration is deleted', async () => {
    const { id } = await makeIntegration(test, 'acme', { name: 'ours', owner: OWNER })
    const { operator } = test.integrations.admin
    await operator.note(id, { token: 'ada', action: 'sync', target: `integration:${id}`, from: '10.0.0.7' })
    const [log] = await test.sql`select summary, metadata from integration_logs where operation = 'operator'`
    expect(log).toEqual({
      summary: 'sync by ada',
      metadata: { token: 'ada', action: 'sync', target: `integration:${id}`, from: '10.0.0.7' },
    })
    await test.integrations.delete(id, { by: 'cli:bob', from: 'build-3' })

    const integration = { id, name: 'ours', provider: 'acme', ownerType: 'team', ownerId: 7 }
    const target = `integration:${id}`
    expect(await entries()).toMatchObject([
      { by: 'cli:bob', action: 'delete', target, from: 'build-3', integration },
      { by: 'ada', action: 'sync', target, from: '10.0.0.7', integration },
    ])
    expect(test.lines.filter(({ level }) => level === 'error')).toEqual([])
  })

  it('has a deletion by the host’s own code, an erasure, and acts on no integration', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await test.integrations.admin.erase(id, { by: 'ada' })
    await test.integrations.delete(id)
    await test.integrations.admin.operator.note(null, { token: 'ada', action: 'prune', target: 'deployment' })
    expect(await entries()).toMatchObject([
      { by: 'ada', action: 'prune', from: null, integration: null },
      { by: 'host', action: 'delete' },
      { by: 'ada', action: 'erase' },
    ])
  })

  it('has no deletion that was refused', async () => {
    const { id } = await makeIntegration(test, 'acme')
    test.starts.running.add(id)
    await expect(test.integrations.delete(id)).rejects.toMatchObject({ code: 'integration_busy' })
    test.starts.running.delete(id)
    expect(await entries()).toEqual([])
  })

  it('cuts what is too long, and never fails for it', async () => {
    await test.integrations.admin.operator.note(null, { token: 'x'.repeat(300), action: 'a\u0000b', target: 't' })
    expect(await entries()).toMatchObject([{ by: 'x'.repeat(255), action: 'ab' }])
  })

  it('is newest first, page by page, and by each filter', async () => {
    const [ours, others] = [await makeIntegration(test, 'acme', { owner: OWNER }), await makeIntegration(test, 'other')]
    const { note } = test.integrations.admin.operator
    await note(ours.id, { token: 'ada', action: 'sync', target: `integration:${ours.id}` })
    await note(others.id, { token: 'bob', action: 'sync', target: `integration:${others.id}` })
    await note(ours.id, { token: 'bob', action: 'replay', target: 'webhook:4711' })
    await test.sql`update integration_audit set created_at = '2031-01-01T00:00:00Z' where target = 'webhook:4711'`
    const [third, second, first] = (await entries()).map(({ id }) => id)
    const ids = async (filter: ListAudit) => (await entries(filter)).map(({ id }) => id)
    expect(await ids({ after: third as number, limit: 1 })).toEqual([second])
    expect(await ids({ by: 'bob' })).toEqual([third, second])
    expect(await ids({ action: 'sync' })).toEqual([second, first])
    expect(await ids({ target: 'webhook:4711' })).toEqual([third])
    expect(await ids({ integrationId: ours.id })).toEqual([third, first])
    expect(await ids({ provider: 'other' })).toEqual([second])
    expect(await ids({ owner: OWNER })).toEqual([third, first])
    expect(await ids({ since: new Date('2031-01-01') })).toEqual([third])
    expect(await ids({ until: new Date('2031-01-01') })).toEqual([second, first])
    expect(await ids({ since: new Date('2031-01-01'), until: new Date('2031-01-01') })).toEqual([])
    expect(await ids({ by: 'ada', integrationId: others.id })).toEqual([])
  })

  it.each<[string, Record<string, unknown>]>([
    ['by', { by: '' }],
    ['integrationId', { integrationId: 0 }],
    ['owner', { owner: null }],
    ['until', { since: new Date(2), until: new Date(1) }],
    ['limit', { limit: 0 }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.admin.audit.list(filter)).toThrow(expect.objectContaining({ argument }))
  })
})
