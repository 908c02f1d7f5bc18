/** What people do with incidents. Rule: docs/behaviour/incidents.md, "Acts". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration } from '../support/rows.ts'

const NOW = new Date('2031-06-01T12:00:00.000Z')
const HOUR_MS = 3_600_000
const later = (hours: number): Date => new Date(NOW.getTime() + hours * HOUR_MS)

let database: TestDatabase
let test: TestIntegrations
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() }, clock: { now: () => NOW } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`truncate integration_audit`
  integration = await makeIntegration(test, 'acme')
})

const acts = async () => {
  const found: string[] = []
  for await (const { by, action, target, from, detail } of test.integrations.admin.audit.list())
    found.push([by, action, target, from, detail].join(' '))
  return found
}

describe('an incident', () => {
  it('is acknowledged, snoozed and annotated, each in the audit without its text', async () => {
    const { id } = await makeIncident(test, integration.id)
    const { incidents } = test.integrations.admin
    await incidents.acknowledge(id, { by: 'ada', note: 'their status page says so', from: '10.0.0.7' })
    await incidents.snooze(id, { by: 'bob', until: later(2) })
    const shown = await incidents.annotate(id, { by: 'eve', text: 'a ticket is open' })
    expect(shown).toMatchObject({
      acknowledgedAt: NOW,
      acknowledgedBy: 'ada',
      snoozedUntil: later(2),
      snoozedBy: 'bob',
      annotations: [
        { at: NOW, by: 'ada', text: 'their status page says so' },
        { at: NOW, by: 'eve', text: 'a ticket is open' },
      ],
    })
    expect(await incidents.get(id)).toEqual(shown)
    expect(await acts()).toEqual([
      `eve annotate incident:${id}  `,
      `bob snooze incident:${id}  until ${later(2).toISOString()}`,
      `ada acknowledge incident:${id} 10.0.0.7 `,
    ])
  })

  it('loses none of what two people write at the same moment, and takes 50', async () => {
    const { id } = await makeIncident(test, integration.id)
    const { incidents } = test.integrations.admin
    const texts = Array.from({ length: 50 }, (_, n) => `line ${n}`)
    await Promise.all(texts.map((text) => incidents.annotate(id, { by: 'ada', text })))
    const { annotations } = await incidents.get(id)
    expect(annotations.map(({ text }) => text).sort()).toEqual(texts.sort())
    await expect(incidents.annotate(id, { by: 'ada', text: 'one more' })).rejects.toMatchObject({ argument: 'text' })
    await expect(incidents.acknowledge(id, { by: 'ada', note: 'one more' })).rejects.toMatchObject({ argument: 'note' })
    expect(await incidents.get(id)).toMatchObject({ acknowledgedAt: null })
  })

  it('is not acknowledged any more once it gets worse, but keeps what was written', async () => {
    await integration.recordFailure('upstream')
    const open = async (severity: string) =>
      test.sql`select integration_open_incident(${integration.id}, 0, 'health', 'x', ${severity}, null, now())`
    await open('degraded')
    const [{ id } = { id: 0 }] = await test.sql<{ id: number }[]>`select id::int from integration_incidents`
    const { incidents } = test.integrations.admin
    await incidents.acknowledge(id, { by: 'ada', note: 'known' })
    await incidents.snooze(id, { by: 'ada', until: later(1) })
    await open('degraded')
    expect(await incidents.get(id)).toMatchObject({ acknowledgedBy: 'ada', snoozedBy: 'ada' })
    await open('failing')
    expect(await incidents.get(id)).toMatchObject({
      peakSeverity: 'failing',
      acknowledgedAt: null,
      acknowledgedBy: null,
      snoozedUntil: null,
      snoozedBy: null,
      annotations: [{ text: 'known' }],
    })
  })

  it('that is closed is annotated only', async () => {
    const { id } = await makeIncident(test, integration.id, { status: 'closed', closedAt: NOW })
    const { incidents } = test.integrations.admin
    await expect(incidents.acknowledge(id, { by: 'ada' })).rejects.toMatchObject({ code: 'incident_not_open' })
    await expect(incidents.snooze(id, { by: 'ada', until: later(1) })).rejects.toMatchObject({
      code: 'incident_not_open',
    })
    expect((await incidents.annotate(id, { by: 'ada', text: 'why it was' })).annotations).toHaveLength(1)
    expect(await acts()).toHaveLength(1)
  })

  it('changes nothing that its workflow has to see', async () => {
    const { id } = await makeIncident(test, integration.id)
    const seen = () => test.sql`select updated_at, followed_at from integration_incidents`
    const before = await seen()
    await test.integrations.admin.incidents.acknowledge(id, { by: 'ada' })
    expect(await seen()).toEqual(before)
  })

  it.each([NOW, later(-1), later(30 * 24 + 1), new Date('never')])('is not snoozed until %s', async (until) => {
    const { id } = await makeIncident(test, integration.id)
    const snoozed = test.integrations.admin.incidents.snooze(id, { by: 'ada', until })
    await expect(snoozed).rejects.toMatchObject({ argument: 'until' })
  })

  it.each(['', 'x'.repeat(2_001)])('is not annotated with %j', async (text) => {
    const { id } = await makeIncident(test, integration.id)
    const annotated = test.integrations.admin.incidents.annotate(id, { by: 'ada', text })
    await expect(annotated).rejects.toMatchObject({ argument: 'text' })
  })

  it('that is not there is not found', async () => {
    const acknowledged = test.integrations.admin.incidents.acknowledge(999_999, { by: 'ada' })
    await expect(acknowledged).rejects.toMatchObject({ code: 'incident_not_found' })
  })
})
