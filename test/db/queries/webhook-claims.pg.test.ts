/** The claim of one row: which states it takes, and who gets it when two connections ask. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Connection } from '../../../src/db/client.ts'
import { connect } from '../../../src/db/client.ts'
import type { ClaimableFrom } from '../../../src/db/queries/webhooks.ts'
import {
  claimPendingWebhooks,
  claimWebhook,
  handBackWebhooks,
  takeUpWebhook,
} from '../../../src/db/queries/webhooks.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration, makeWebhook, setIntegration, webhookOf } from '../../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let connections: [Connection, Connection]

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
  connections = [connect({ database: database.url }), connect({ database: database.url })]
})

afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.close()))
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
})

const PENDING = { status: 'pending' } as const
const STUCK = { status: 'processing', attempts: 2 } as const
const REPLAY = { replay: true } as const

describe('a claim of one row', () => {
  it.each<[string, ClaimableFrom, object, object]>([
    ['takes a pending one', PENDING, { attempts: 1 }, { attempts: 2, replayAttempt: null }],
    ['takes one whose worker is lost', STUCK, { status: 'processing', attempts: 2, claim: 'old:1' }, { attempts: 3 }],
    ['replays a processed one', REPLAY, { status: 'processed', attempts: 1 }, { attempts: 2, replayAttempt: 2 }],
    [
      'replays a failed one',
      REPLAY,
      { status: 'failed', error: 'bad', attempts: 4 },
      { attempts: 5, replayAttempt: 5 },
    ],
    [
      'counts a replay of a replay as one of its own',
      REPLAY,
      { status: 'processed', attempts: 5, replayAttempt: 3 },
      { attempts: 6, replayAttempt: 6 },
    ],
    [
      'leaves the replay that an attempt belongs to',
      STUCK,
      { status: 'processing', attempts: 2, replayAttempt: 2, claim: 'old:1' },
      { attempts: 3, replayAttempt: 2 },
    ],
    [
      'replays a processed one with an empty body',
      REPLAY,
      { status: 'processed', payload: '', headers: { 'content-length': ['0'] } },
      { attempts: 1 },
    ],
  ])('%s', async (_, from, values, claimed) => {
    const row = await makeWebhook(test, integration.id, { processedAt: new Date(), ...values })
    expect(await claim(row.id, from)).toMatchObject({
      status: 'processing',
      claim: 'run:1',
      error: null,
      processedAt: null,
      payload: row.payload,
      ...claimed,
    })
  })

  it.each<[string, ClaimableFrom, object]>([
    ['a processed one as pending', PENDING, { status: 'processed' }],
    ['a processing one as pending', PENDING, { status: 'processing', attempts: 2 }],
    ['one that was claimed since', STUCK, { status: 'processing', attempts: 3 }],
    ['one that went back since', STUCK, { status: 'pending', attempts: 2 }],
    ['a pending one as a replay', REPLAY, { status: 'pending' }],
    ['a processing one as a replay', REPLAY, { status: 'processing', attempts: 1 }],
    ['one erased before it was handled', REPLAY, { status: 'failed', error: 'erased', payload: '', headers: {} }],
    ['one erased after it was handled', REPLAY, { status: 'processed', payload: '', headers: {} }],
  ])('does not take %s', async (_, from, values) => {
    const row = await makeWebhook(test, integration.id, values)
    expect(await claim(row.id, from)).toBeNull()
    expect(await webhookOf(test, row.id)).toEqual(row)
  })

  it('of an integration that its health disabled is made for a replay only', async () => {
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    const pending = await makeWebhook(test, integration.id)
    const stuck = await makeWebhook(test, integration.id, { status: 'processing', attempts: 2 })
    const failed = await makeWebhook(test, integration.id, { status: 'failed' })
    expect(await claim(pending.id, PENDING)).toBeNull()
    expect(await claim(stuck.id, STUCK)).toBeNull()
    expect(await claim(failed.id, REPLAY)).toMatchObject({ status: 'processing' })
  })

  it.each<[string, ClaimableFrom, object]>([
    ['pending', PENDING, {}],
    ['stuck', STUCK, { status: 'processing', attempts: 2 }],
    ['failed', REPLAY, { status: 'failed' }],
  ])('of a %s row has one winner of two connections', async (_, from, values) => {
    const row = await makeWebhook(test, integration.id, values)
    // Both statements are under way before either may take the row.
    const claims = await test.sql
      .begin(async (holder) => {
        await holder`select 1 from integration_webhooks where id = ${row.id} for update`
        const both = connections.map(({ db }, n) =>
          claimWebhook(db, test.framework.tables, { id: row.id, claim: `run:${n}`, from }),
        )
        const waiting = () =>
          test.sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
        await expect.poll(async () => (await waiting()).length).toBe(2)
        return both
      })
      .then((both) => Promise.all(both))
    const winners = claims.filter((claimed) => claimed !== null)
    expect(winners).toHaveLength(1)
    expect(await webhookOf(test, row.id)).toEqual(winners[0])
  })
})

it('no claim counts beyond what the column holds, so that a row replayed for ever can still be claimed', async () => {
  const full = { attempts: 32_767 }
  const pending = await makeWebhook(test, integration.id, full)
  const replayed = await makeWebhook(test, integration.id, { ...full, status: 'failed' })
  const held = await makeWebhook(test, integration.id, { ...full, status: 'processing', claim: 'run:1' })
  const { db, tables } = test.framework
  expect(await claimPendingWebhooks(db, tables, { integrationId: integration.id, claim: 'run:2', limit: 5 })).toEqual([
    expect.objectContaining({ id: pending.id, ...full }),
  ])
  expect(await claim(replayed.id, REPLAY)).toMatchObject({ ...full, replayAttempt: 32_767 })
  expect((await takeUpWebhook(db, tables, held, 'run:1'))?.row).toMatchObject({ ...full, claim: 'run:1:1' })
})

it('gives back what it still holds, and nothing that a later try has taken up', async () => {
  const { db, tables } = test.framework
  const [first, second] = [await makeWebhook(test, integration.id), await makeWebhook(test, integration.id)]
  const claimed = await claimPendingWebhooks(db, tables, { integrationId: integration.id, claim: 'run:1', limit: 2 })
  const [held] = claimed
  await takeUpWebhook(db, tables, held as (typeof claimed)[number], 'run:1')
  expect(await handBackWebhooks(db, tables, claimed)).toBe(1)
  expect(await webhookOf(test, first.id)).toMatchObject({ status: 'processing', attempts: 2, claim: 'run:1:1' })
  expect(await webhookOf(test, second.id)).toMatchObject({ status: 'pending', attempts: 0, claim: null })
  expect(await handBackWebhooks(db, tables, [])).toBe(0)
})

function claim(id: number, from: ClaimableFrom) {
  return claimWebhook(test.framework.db, test.framework.tables, { id, claim: 'run:1', from })
}
