/** Stored events as an operator sees them. Rule: docs/behaviour/events.md, "Looking". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Tables } from '../../src/db/schema/tables.ts'
import type { ListStoredEvents } from '../../src/events/event-list.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const OWNER = { type: 'team', id: 7 }
const AT = '2031-06-01T12:00:00.000Z'
const DELIVERED = { status: 'delivered', attempts: 1, at: AT }
const WAITING = { status: 'waiting', attempts: 2, at: AT, dueAt: AT, error: 'Error: away' }
const GIVEN_UP = { status: 'given_up', attempts: 10, at: AT, error: 'Error: gone' }

let database: TestDatabase
let test: TestIntegrations
let ours: Integration
let others: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {}, other: {} } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  ours = await makeIntegration(test, 'plain', { name: 'ours', owner: OWNER })
  others = await makeIntegration(test, 'other')
})

async function made(integrationId: number, values: Partial<Tables['events']['$inferInsert']> = {}): Promise<number> {
  const { db, tables } = test.framework
  const [row] = await db
    .insert(tables.events)
    .values({ integrationId, name: 'CircuitOpened', payload: { reason: 'x' }, ...values })
    .returning()
  return row?.id as number
}

async function idsOf(filter: ListStoredEvents = {}): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of test.integrations.admin.storedEvents.list(filter)) ids.push(id)
  return ids
}

describe('stored events', () => {
  it('are shown with what became of them at each listener and target', async () => {
    const outcomes = { 'listener:pager': DELIVERED, 'target:1a': WAITING }
    const id = await made(ours.id, { outcomes, attempts: 2, dueAt: new Date(AT) })
    const event = await test.integrations.admin.storedEvents.get(id)
    expect(event).toEqual({
      ...{ id, integrationId: ours.id, provider: 'plain', integrationName: 'ours', name: 'CircuitOpened' },
      ...{ status: 'retrying', attempts: 2, lostWorkers: 0, isBeingDelivered: false, createdAt: expect.any(Date) },
      ...{ dueAt: new Date(AT), deliveredAt: null, payload: { reason: 'x' } },
      deliveries: [
        { consumer: 'listener:pager', status: 'delivered', attempts: 1, at: new Date(AT), dueAt: null, error: null },
        {
          ...{ consumer: 'target:1a', status: 'waiting', attempts: 2, at: new Date(AT) },
          ...{ dueAt: new Date(AT), error: 'Error: away' },
        },
      ],
    })
    await expect(test.integrations.admin.storedEvents.get(id + 1)).rejects.toMatchObject({
      code: 'stored_event_not_found',
    })
  })

  it('have one status each, and are listed by it', async () => {
    const settled = { deliveredAt: new Date() }
    const waiting = await made(ours.id)
    const held = await made(ours.id, { claim: 'pump', attempts: 1 })
    const retrying = await made(ours.id, { outcomes: { 'target:1a': WAITING } })
    const givenUp = await made(ours.id, { outcomes: { 'target:1a': GIVEN_UP }, ...settled })
    const both = await made(ours.id, { outcomes: { 'target:1a': GIVEN_UP, 'listener:b': WAITING } })
    const delivered = await made(ours.id, { outcomes: { 'target:1a': DELIVERED }, ...settled })
    const expected = {
      waiting: [held, waiting],
      retrying: [retrying],
      given_up: [both, givenUp],
      delivered: [delivered],
    }
    for (const [status, ids] of Object.entries(expected)) {
      expect(await idsOf({ status: status as 'waiting' })).toEqual(ids)
      for (const id of ids) expect((await test.integrations.admin.storedEvents.get(id)).status).toBe(status)
    }
    expect(await test.integrations.admin.storedEvents.get(held)).toMatchObject({ isBeingDelivered: true })
    expect(await test.integrations.admin.storedEvents.get(delivered)).toMatchObject({ dueAt: null })
  })

  it('are newest first, by each filter, without payloads', async () => {
    const a = await made(ours.id, { outcomes: { 'listener:pager': DELIVERED } })
    const b = await made(others.id, { name: 'IncidentOpened' })
    const c = await made(ours.id, { createdAt: new Date(AT) })
    expect(await idsOf()).toEqual([c, b, a])
    expect(await idsOf({ after: c, limit: 1 })).toEqual([b])
    expect(await idsOf({ integrationId: ours.id })).toEqual([c, a])
    expect(await idsOf({ provider: 'other' })).toEqual([b])
    expect(await idsOf({ owner: OWNER })).toEqual([c, a])
    expect(await idsOf({ name: 'IncidentOpened' })).toEqual([b])
    expect(await idsOf({ consumer: 'listener:pager' })).toEqual([a])
    expect(await idsOf({ since: new Date(AT) })).toEqual([c])
    expect(await idsOf({ until: new Date(AT) })).toEqual([b, a])
    for await (const event of test.integrations.admin.storedEvents.list()) expect(event).not.toHaveProperty('payload')
  })

  it.each<[string, Record<string, unknown>]>([
    ['name', { name: 'Nothing' }],
    ['status', { status: 'lost' }],
    ['consumer', { consumer: '' }],
    ['integrationId', { integrationId: 0 }],
    ['limit', { limit: 0 }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.admin.storedEvents.list(filter)).toThrow(expect.objectContaining({ argument }))
  })
})
