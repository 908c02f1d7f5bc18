import { asc, eq } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createActivities } from '../../src/activities/index.ts'
import { partsOf } from '../../src/create-integrations.ts'
import type { Integration, Integrations, IntegrationsOptions } from '../../src/index.ts'
import { createIntegrations } from '../../src/index.ts'
import type { HandlesWebhooks, HasIncrementalSync, Json, SyncSession } from '../../src/provider.ts'
import { RateLimitExceededException, reduceCheckpointsByMax, SyncItemEvent } from '../../src/provider.ts'
import { storeDeliveries } from '../../src/webhooks/arrival-queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { Scene, Stage } from './stage.ts'
import { openStage, startSync, wakeInbox } from './stage.ts'

class NoteSynced extends SyncItemEvent<{ note: string }> {
  static override readonly type = 'notes.note_synced'
}

/** A provider of notes: what it lists is set by the test. */
class NotesProvider implements HasIncrementalSync, HandlesWebhooks {
  readonly label = 'Notes'
  /** External id → checkpoint. */
  listed: Record<string, string> = {}
  readonly cursors: Json[] = []
  readonly reduceCheckpoints = reduceCheckpointsByMax
  readonly syncIncremental = this.sync

  async sync(integration: Integration, session: SyncSession): Promise<void> {
    this.cursors.push(session.cursor())
    for (const [note, checkpoint] of Object.entries(this.listed))
      await session.dispatch(new NoteSynced(integration, { note }), checkpoint, note)
  }
  syncItemEvents() {
    return [NoteSynced]
  }
  defaultSyncInterval() {
    return 60
  }
  defaultRateLimit() {
    return null
  }
  verifyWebhookSignature() {
    return true
  }
  async handleWebhook(_integration: Integration, request: { rawBody: Uint8Array }) {
    const body = Buffer.from(request.rawBody).toString()
    if (body === 'poison') throw new Error('the handler can’t take this')
    return { read: body }
  }
}

let stage: Stage
let database: TestDatabase
let integrations: Integrations
let provider: NotesProvider
/** Fails so many attempts of a note. */
let failures: Record<string, number>
let attempts: string[]

beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
})
afterAll(async () => {
  await stage?.close()
  await database?.drop()
})
afterEach(() => integrations?.close())

/** A host, its worker, and an integration of its own. */
async function withHost(play: (integration: Integration, scene: Scene) => Promise<void>): Promise<void> {
  provider = new NotesProvider()
  failures = {}
  attempts = []
  integrations = createIntegrations({
    database: database.url,
    temporal: { address: stage.env.address },
    encryptionKeys: `test:${Buffer.alloc(32, 1).toString('base64')}`,
    providers: { notes: provider },
    logger: silent,
    pool: { max: 4 },
  })
  integrations.on(NoteSynced, ({ payload }) => {
    attempts.push(payload.note)
    const left = failures[payload.note] ?? 0
    failures[payload.note] = left - 1
    if (left > 0) throw new Error(`${payload.note} can’t be stored`)
  })
  const integration = await integrations.create({ provider: 'notes', name: 'Notes', credentials: {} })
  const { framework } = partsOf(integrations)
  const activities = createActivities(framework)
  await stage.play(
    {
      ...activities,
      // The batches go to the queue of the configuration, which here is the scene's.
      openSyncRun: async (input) => {
        const opened = await activities.openSyncRun(input)
        if (opened.kind !== 'open') return opened
        return { ...opened, settings: { ...opened.settings, itemTaskQueue: queue } }
      },
    },
    async (scene) => {
      queue = scene.taskQueue
      await play(integration, scene)
    },
  )
}
let queue: string

const silent: NonNullable<IntegrationsOptions['logger']> = {
  debug() {},
  info() {},
  warn() {},
  error() {},
}

describe('an inbox over real rows', () => {
  it('settles each row as processed or failed, once, with a log line each', async () => {
    await withHost(async (integration, scene) => {
      const { db, tables } = partsOf(integrations).framework
      const total = 45
      const deliveries = Array.from({ length: total }, (_, index) => ({
        deliveryId: `delivery-${index + 1}`,
        eventType: null,
        payload: (index + 1) % 9 === 0 ? 'poison' : `note ${index + 1}`,
        headers: {},
        owner: { integrationId: integration.id, version: null },
      }))
      await storeDeliveries(db, tables, deliveries)
      const inbox = await wakeInbox(scene)
      expect(await inbox.result()).toMatchObject({ processed: 40, failed: 5 })

      const { webhooks, logs } = tables
      const rows = await db.select().from(webhooks).where(eq(webhooks.integrationId, integration.id))
      expect(rows).toHaveLength(total)
      for (const row of rows) {
        const isPoison = row.payload === 'poison'
        expect(row).toMatchObject({ status: isPoison ? 'failed' : 'processed', attempts: 1, claim: null })
        expect(row.error).toBe(isPoison ? 'the handler can’t take this' : null)
        expect(row.processedAt).not.toBeNull()
      }
      const lines = await db.select().from(logs).where(eq(logs.integrationId, integration.id))
      expect(lines.map((line) => line.externalId).sort()).toEqual(rows.map((row) => row.deliveryId).sort())
      expect(lines.filter((line) => line.status === 'success')).toHaveLength(40)
      expect(lines.filter((line) => line.status === 'failed')).toHaveLength(5)
      expect(lines.find((line) => line.externalId === 'delivery-1')).toMatchObject({
        operation: 'webhook',
        direction: 'inbound',
        resultData: { read: 'note 1' },
      })
    })
  })
})

describe('a sync over real rows', () => {
  it('retries an item until it succeeds, and only then moves the cursor and announces', async () => {
    await withHost(async (integration, scene) => {
      provider.listed = { a: '2024-05-01T00:00:00Z', b: '2024-05-03T00:00:00Z', c: '2024-05-02T00:00:00Z' }
      failures = { b: 2 }
      const announced: unknown[] = []
      integrations.on('SyncCompleted', ({ result }) => announced.push(result))
      const cursors: Json[] = []
      integrations.on(NoteSynced, async () => {
        cursors.push((await integrations.get(integration.id)).syncCursor)
      })

      const run = await startSync(scene, { integrationId: integration.id })
      expect(await run.result()).toEqual({ kind: 'finalised', status: 'success', succeeded: 3, failed: 0, skipped: 0 })
      expect(attempts.sort()).toEqual(['a', 'b', 'b', 'b', 'c'])
      expect(cursors).toEqual([null, null, null])

      const after = await rowOf(integration)
      expect(after).toMatchObject({ syncCursor: '2024-05-03T00:00:00Z', consecutiveSyncFailures: 0 })
      expect(after.lastSyncedAt).not.toBeNull()
      expect(minutesUntilNext(after)).toBeCloseTo(60, -1)
      expect(announced).toMatchObject([{ kind: 'success', successCount: 3, cursor: '2024-05-03T00:00:00Z' }])

      const items = await itemsOf(integration)
      expect(items.map((item) => [item.externalId, item.status, item.attempts])).toEqual([
        ['a', 'success', 1],
        ['b', 'success', 3],
        ['c', 'success', 1],
      ])
      const { db, tables } = partsOf(integrations).framework
      const lines = await db
        .select()
        .from(tables.logs)
        .where(eq(tables.logs.integrationId, integration.id))
        .orderBy(asc(tables.logs.id))
      expect(lines.map((line) => [line.operation, line.status, line.attempt])).toEqual([
        ['sync', 'success', null],
        ['sync_item', 'failed', 1],
        ['sync_item', 'failed', 2],
      ])
    })
  })

  it('keeps the cursor while a poison item holds it, until a later run takes the same item', async () => {
    await withHost(async (integration, scene) => {
      provider.listed = { a: '1', poison: '2' }
      failures = { poison: 5 }
      const failed: string[] = []
      integrations.on('SyncItemFailed', ({ item }) => failed.push(item.externalId ?? ''))
      const sync = async () => (await startSync(scene, { integrationId: integration.id })).result()

      expect(await sync()).toMatchObject({ status: 'partial', succeeded: 1, failed: 1 })
      expect(failed).toEqual(['poison'])
      const first = await rowOf(integration)
      expect(first).toMatchObject({ syncCursor: null, lastSyncedAt: null, consecutiveSyncFailures: 1 })
      expect(minutesUntilNext(first)).toBeGreaterThan(55)

      // A clean run without it leaves the cursor where it is.
      provider.listed = { c: '3' }
      expect(await sync()).toMatchObject({ status: 'success', succeeded: 1 })
      const second = await rowOf(integration)
      expect(second).toMatchObject({ syncCursor: null, consecutiveSyncFailures: 0 })
      expect(second.nextSyncAt?.getTime()).toBeGreaterThanOrEqual(first.nextSyncAt?.getTime() as number)

      provider.listed = { poison: '2', c: '3' }
      expect(await sync()).toMatchObject({ status: 'success', succeeded: 2 })
      expect((await rowOf(integration)).syncCursor).toBe('3')
      expect(provider.cursors).toEqual([null, null, null])
    })
  })

  it('ends a first listing of 600 requests under a limit of 100 a minute: from its bookmark, no page asked twice', async () => {
    await withHost(async (integration, scene) => {
      const pages = 600
      const perMinute = 100
      const asked: { page: number; at: number }[] = []
      const sync = async (_integration: Integration, session: SyncSession): Promise<void> => {
        for (let page = Number(session.resumeFrom() ?? 1); page <= pages; page += 1) {
          const at = await scene.now()
          const inWindow = asked.filter((request) => request.at > at - 60_000)
          if (inWindow.length >= perMinute) {
            const freeAt = (inWindow[0]?.at as number) + 60_000
            throw new RateLimitExceededException(session.integration, Math.ceil((freeAt - at) / 1_000), null)
          }
          asked.push({ page, at })
          await session.dispatch(new NoteSynced(session.integration, { note: `page ${page}` }), null, page)
          await session.bookmark(page + 1)
        }
      }
      Object.assign(provider, { sync, syncIncremental: sync })

      const run = await startSync(scene, { integrationId: integration.id })
      expect(await run.result()).toMatchObject({ kind: 'finalised', status: 'success', succeeded: pages, failed: 0 })
      expect(asked.map(({ page }) => page)).toEqual(Array.from({ length: pages }, (_, index) => index + 1))
      expect((asked.at(-1)?.at as number) - (asked[0]?.at as number)).toBeGreaterThanOrEqual(5 * 60_000)
      const items = await itemsOf(integration)
      expect(items.map((item) => Number(item.externalId))).toEqual(asked.map(({ page }) => page))
    })
  })

  it('gives a listing up that the provider refuses three times: no item, no announcement, a later run', async () => {
    await withHost(async (integration, scene) => {
      let tries = 0
      provider.sync = async (_integration, session) => {
        tries += 1
        await session.dispatch(new NoteSynced(session.integration, { note: 'a' }), '1', 'a')
        throw new Error('the second page is down')
      }
      Object.assign(provider, { syncIncremental: provider.sync })
      const announced: unknown[] = []
      integrations.on('SyncCompleted', () => announced.push('completed'))

      const run = await startSync(scene, { integrationId: integration.id })
      await expect(run.result()).rejects.toMatchObject({ cause: { type: 'ListingFailed' } })
      expect(tries).toBe(3)
      expect(await itemsOf(integration)).toEqual([])
      expect([attempts, announced]).toEqual([[], []])
      const after = await rowOf(integration)
      expect(after).toMatchObject({ syncCursor: null, lastSyncedAt: null, consecutiveSyncFailures: 1 })
      expect(minutesUntilNext(after)).toBeGreaterThan(55)
    })
  })

  it('ends silently for an integration that is switched off', async () => {
    await withHost(async (integration, scene) => {
      await integrations.update(integration.id, { isActive: false })
      const run = await startSync(scene, { integrationId: integration.id })
      expect(await run.result()).toMatchObject({ kind: 'not this time' })
      expect(provider.cursors).toEqual([])
    })
  })
})

async function rowOf({ id }: Integration) {
  const { db, tables } = partsOf(integrations).framework
  const [row] = await db.select().from(tables.integrations).where(eq(tables.integrations.id, id))
  if (row === undefined) throw new Error('the integration is gone')
  return row
}

function itemsOf({ id }: Integration) {
  const { db, tables } = partsOf(integrations).framework
  const { syncItems } = tables
  return db.select().from(syncItems).where(eq(syncItems.integrationId, id)).orderBy(asc(syncItems.id))
}

/** By the database's clock, which nothing skips. */
function minutesUntilNext({ nextSyncAt }: { nextSyncAt: Date | null }): number {
  return ((nextSyncAt?.getTime() ?? Number.NaN) - Date.now()) / 60_000
}
