/** A look at what a run would list: validated, stopped in time, and nothing stored. */
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { mappedTable } from '../../../src/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { SyncSession } from '../../../src/providers/sync-session.ts'
import { reduceCheckpointsByMax } from '../../../src/syncs/checkpoint-rules.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { occasion, testIntegrations } from '../../support/integrations.ts'
import { incrementalProvider, syncProvider, ThingSynced } from '../../support/providers.ts'
import { makeIntegration, setIntegration } from '../../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let lists: (session: SyncSession) => Promise<void> | void

beforeAll(async () => {
  database = await createTestDatabase()
  const byTest = (session: SyncSession) => lists(session)
  test = testIntegrations(database.url, {
    models: { contact: mappedTable(pgTable('contact', { id: integer().primaryKey() })) },
    providers: {
      acme: syncProvider(byTest),
      incremental: incrementalProvider(() => {
        throw new Error('sync() was called')
      }, byTest),
      unscheduled: {},
      crm: {
        defaultRateLimit: () => null,
        streams: {
          contacts: {
            model: 'contact',
            overlapSeconds: 3_600,
            sync: async (_, session) => byTest(session),
            reduceCheckpoints: reduceCheckpointsByMax,
          },
        },
      },
    },
  })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  test.lines.length = 0
})

const thing = (session: SyncSession, n: number, externalId: string | null = `thing-${n}`) =>
  session.dispatch(new ThingSynced(session.integration, { n }), `c${n}`, externalId)
const sample = (options?: { limit?: number; signal?: AbortSignal }) =>
  test.integrations.syncs.sample(integration.id, options)

/** Hands in so many, one after the other. */
const listing = (count: number) => async (session: SyncSession) => {
  for (let n = 1; n <= count; n += 1) await thing(session, n)
}

describe('a sample', () => {
  it('shows class, external id, checkpoint and the size of the payload as it would be stored', async () => {
    lists = listing(1)
    expect(await sample()).toEqual({
      items: [
        {
          eventClass: 'test.thing',
          externalId: 'thing-1',
          checkpointValue: 'c1',
          bytes: '{"v":1,"data":{"n":1}}'.length,
        },
      ],
      more: false,
      duplicatesDropped: 0,
    })
  })

  it('of a stream lists as its run does: from the overlapped cursor, and for the model that it declares', async () => {
    const { id } = await makeIntegration(test, 'crm')
    await test.integrations.syncs.setCursor(id, '2031-01-01T12:00:00Z', { stream: 'contacts' })
    let from: unknown
    lists = async (session) => {
      from = session.cursor()
      session.fullListing()
      await thing(session, 1)
    }
    expect((await test.integrations.syncs.sample(id, { stream: 'contacts' })).items).toHaveLength(1)
    expect(from).toBe('2031-01-01T11:00:00Z')
  })

  it('shows ten items unless told otherwise', async () => {
    lists = listing(50)
    expect((await sample()).items).toHaveLength(10)
    expect((await sample({ limit: 100 })).items).toHaveLength(50)
    expect((await sample({ limit: 1 })).items).toMatchObject([{ externalId: 'thing-1' }])
  })

  it('says to the listing what it handed in, as a run does', async () => {
    let said: boolean[] = []
    lists = async (session) => {
      await thing(session, 1)
      said = ['thing-1', 'thing-2', ''].map((id) => session.has(ThingSynced, id))
    }
    await sample()
    expect(said).toEqual([true, false, false])
  })

  it.each([0, 101, 1.5, Number.NaN])('of %d is refused', async (limit) => {
    await expect(sample({ limit })).rejects.toMatchObject({ code: 'invalid_argument', argument: 'limit' })
  })

  it('says that the listing would have gone on, or not', async () => {
    lists = listing(10)
    expect(await sample({ limit: 10 })).toMatchObject({ more: false })
    lists = listing(11)
    expect(await sample({ limit: 10 })).toMatchObject({ more: true })
  })

  it('counts repeats and shows the newer copy', async () => {
    lists = async (session) => {
      await thing(session, 1)
      await thing(session, 2, 'thing-1')
      await thing(session, 3, null)
      await thing(session, 4, null)
      expect([session.count, session.duplicatesDropped, session.isEmpty]).toEqual([3, 1, false])
    }
    const { items, duplicatesDropped } = await sample()
    expect(items.map(({ externalId, checkpointValue }) => [externalId, checkpointValue])).toEqual([
      ['thing-1', 'c2'],
      [null, 'c3'],
      [null, 'c4'],
    ])
    expect(duplicatesDropped).toBe(1)
  })

  it('lists from the cursor as it is, by syncIncremental() where there is one', async () => {
    integration = await makeIntegration(test, 'incremental')
    await integration.updateSyncCursor('c7')
    let seen: unknown
    lists = (session) => {
      seen = [session.cursor(), session.resumeFrom(), session.syncLogId]
    }
    expect(await sample()).toEqual({ items: [], more: false, duplicatesDropped: 0 })
    expect(seen).toEqual(['c7', null, 0])
  })

  it('is had of an integration that is switched off', async () => {
    await setIntegration(test, integration.id, { isActive: false })
    lists = listing(1)
    expect((await sample()).items).toHaveLength(1)
  })

  it('needs an integration that is there, and a provider that can sync', async () => {
    await expect(test.integrations.syncs.sample(999_999)).rejects.toMatchObject({ code: 'integration_not_found' })
    const { id } = await makeIntegration(test, 'unscheduled')
    await expect(test.integrations.syncs.sample(id)).rejects.toMatchObject({ code: 'unsupported_by_provider' })
  })

  it('stores no item, log row, cursor or time', async () => {
    const before = await test.sql`select * from integrations where id = ${integration.id}`
    lists = async (session) => {
      await listing(5)(session)
      await session.bookmark({ page: 2 })
      session.fullListing()
    }
    await sample()
    expect(await test.sql`select * from integrations where id = ${integration.id}`).toEqual(before)
    const [rows] = await test.sql`
      select (select count(*)::int from integration_sync_items where integration_id = ${integration.id}) as items,
             (select count(*)::int from integration_logs where integration_id = ${integration.id}) as logs`
    expect(rows).toEqual({ items: 0, logs: 0 })
  })

  it('leaves the rows of its requests', async () => {
    lists = async (session) => {
      await session.integration.request('/things', 'GET', async () => ({ things: [] }))
      await thing(session, 1)
    }
    await sample()
    expect(await test.sql`select endpoint from integration_requests where integration_id = ${integration.id}`).toEqual([
      { endpoint: '/things' },
    ])
  })
})

describe('a sample refuses, as a run does,', () => {
  it.each<[string, string, (session: SyncSession) => Promise<void> | void]>([
    [
      'a payload that does not fit its class',
      'payload',
      (session) => session.dispatch(new ThingSynced(session.integration, { n: 'one' } as never)),
    ],
    [
      'a checkpoint that is no JSON',
      'checkpointValue',
      (session) => session.dispatch(new ThingSynced(session.integration, { n: 1 }), new Date() as never),
    ],
    [
      'an external id that is too long',
      'externalId',
      (session) => session.dispatch(new ThingSynced(session.integration, { n: 1 }), null, 'x'.repeat(501)),
    ],
    ['a bookmark of null', 'position', (session) => session.bookmark(null)],
    ['a full listing of an unknown model', 'internalType', (session) => session.fullListing('ghost')],
  ])('%s', async (_, argument, list) => {
    lists = list
    await expect(sample()).rejects.toMatchObject({ code: 'invalid_argument', argument })
  })
})

describe('the listing of a sample', () => {
  it('ends the sample with what it throws', async () => {
    lists = async (session) => {
      await thing(session, 1)
      throw new Error('the provider is away')
    }
    await expect(sample()).rejects.toThrow('the provider is away')
  })

  it('is stopped by the signal as soon as it waits for more', async () => {
    const aborted = occasion()
    lists = async (session) => {
      await listing(2)(session)
      await new Promise<void>((_, reject) =>
        session.signal.addEventListener('abort', () => {
          aborted.happen()
          reject(session.signal.reason)
        }),
      )
    }
    expect(await sample({ limit: 2 })).toMatchObject({ more: true })
    await aborted.happened
  })

  it('can’t make the sample longer when it swallows the end', async () => {
    let refused = 0
    lists = async (session) => {
      for (let n = 1; n <= 30; n += 1)
        await thing(session, n).catch(() => {
          refused += 1
        })
    }
    const { items, more } = await sample({ limit: 3 })
    expect([items.length, more, refused]).toEqual([3, true, 27])
  })

  it('can’t make the sample wait when it passes over the signal', async () => {
    const released = occasion()
    lists = async (session) => {
      await listing(3)(session)
      await released.happened
      await thing(session, 4)
    }
    expect(await sample({ limit: 3 })).toMatchObject({ more: true, items: { length: 3 } })
    released.happen()
  })

  it('needs not await, and brings nobody down when it does not', async () => {
    lists = (session) => {
      for (let n = 1; n <= 30; n += 1) void thing(session, n)
      void session.dispatch(new ThingSynced(session.integration, { n: 'one' } as never))
    }
    expect(await sample({ limit: 3 })).toMatchObject({ more: true, items: { length: 3 } })
  })

  it('fails with what nobody awaits and is refused, as a run would, and has it logged', async () => {
    lists = (session) => {
      void session.dispatch(new ThingSynced(session.integration, { n: 'one' } as never))
    }
    await expect(sample()).rejects.toMatchObject({ code: 'invalid_argument', argument: 'payload' })
    expect(test.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', fields: expect.objectContaining({ event: 'sync.item_refused' }) }),
    )
  })

  it('is ended by what nobody awaits and is refused, however long it would go on', async () => {
    const aborted = occasion()
    lists = async (session) => {
      void session.bookmark(null)
      await new Promise<void>((resolve) => session.signal.addEventListener('abort', () => resolve(), { once: true }))
      aborted.happen()
    }
    await expect(sample()).rejects.toMatchObject({ code: 'invalid_argument', argument: 'position' })
    await aborted.happened
  })

  it('is over when the caller gives up', async () => {
    const caller = new AbortController()
    lists = async (session) => {
      await thing(session, 1)
      caller.abort(new Error('never mind'))
      session.signal.throwIfAborted()
    }
    await expect(sample({ signal: caller.signal })).rejects.toThrow('never mind')
    await expect(sample({ signal: caller.signal })).rejects.toThrow('never mind')
  })
})
