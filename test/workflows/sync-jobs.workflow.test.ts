/** The workflows beside the runs: retries of one item, commands, backfills. */
import { ApplicationFailure } from '@temporalio/activity'
import { WorkflowFailedError } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { OneItem, OneItemResult } from '../../src/activities/item-activities.ts'
import type { FindOrphansResult } from '../../src/mappings/mapping-jobs.ts'
import type { BackfillInput, BackfillResult, ProcessSyncItemResult } from '../../src/syncs/sync-jobs.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { backfillProgress, processSyncItemState, retryItem } from '../../src/workflows/messages.ts'
import { occasion } from '../support/integrations.ts'
import { ScriptedSync } from './scripted-sync.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, openStage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

const start = <Result>({ client, taskQueue, workflowId }: Scene, workflow: string, ...args: unknown[]) =>
  client.start<(...input: unknown[]) => Promise<Result>>(workflow, { workflowId, taskQueue, args })

const failureOf = async (handle: { result(): Promise<unknown> }) =>
  ((await handle.result().catch((thrown: unknown) => thrown)) as WorkflowFailedError).cause

describe('a workflow that a person starts with a wrong input', () => {
  it.each([
    [WORKFLOW.syncIntegration, [], '"integrationId": a whole number of at least 1 is allowed, nothing was given.'],
    [WORKFLOW.syncIntegration, [{ id: 1 }], '"integrationId": a whole number of at least 1 is allowed, nothing was'],
    [WORKFLOW.syncIntegration, [{ integrationId: 'one' }], 'at least 1 is allowed, a string was given.'],
    [
      WORKFLOW.syncIntegration,
      [{ integrationId: 7, stream: 3 }],
      '"stream": the name of a stream is allowed, a number',
    ],
    [WORKFLOW.backfillSync, [], '"integrationId"'],
    [WORKFLOW.processSyncItem, [], '"itemId"'],
    [WORKFLOW.processSyncItem, [{ itemId: 0 }], '"itemId": a whole number of at least 1 is allowed, 0 was given.'],
    [WORKFLOW.processWebhook, [null], '"webhookId"'],
    [WORKFLOW.incident, [], '"integrationId"'],
    [WORKFLOW.incident, [{ integrationId: 'seven' }], 'at least 1 is allowed, a string was given.'],
    [WORKFLOW.webhookSubscription, [{ id: 7 }], '"integrationId"'],
  ])('%s %j fails at once, and says what is allowed', async (name, input, message) => {
    await stage.play({}, async (scene) => {
      expect(await failureOf(await start(scene, name, ...input))).toMatchObject({
        type: 'invalid_argument',
        nonRetryable: true,
        message: expect.stringContaining(message),
      })
    })
  })
})

describe('the retry of one item', () => {
  const ended: OneItemResult = {
    itemId: 5,
    outcome: 'success',
    status: 'success',
    attempts: 4,
    error: null,
    waitSeconds: null,
    isCounted: true,
  }
  const waits = (seconds: number): OneItemResult => ({
    ...ended,
    outcome: 'failed',
    status: 'processing',
    waitSeconds: seconds,
  })

  it.each([WORKFLOW.processSyncItem, 'integrations:retry-sync-item'])(
    'as %s is one attempt, by default',
    async (name) => {
      const asked: OneItem[] = []
      const processOneSyncItem: Activities['processOneSyncItem'] = async (item) => {
        asked.push(item)
        return ended
      }
      await stage.play({ processOneSyncItem }, async (scene) => {
        const handle = await start<ProcessSyncItemResult>(scene, name, { itemId: 5 })
        const { waitSeconds: _, isCounted: __, ...result } = ended
        expect(await handle.result()).toEqual(result)
        const claim = `retry-${handle.firstExecutionRunId}:1`
        expect(asked).toEqual([{ itemId: 5, claim, attempt: 1, tries: 1 }])
        expect(await handle.query(processSyncItemState)).toEqual({ phase: 'done', attempts: 1 })
      })
    },
  )

  it('waits between its tries on durable timers, and each one has a claim of its own', async () => {
    const asked: { at: number; item: OneItem }[] = []
    let scene: Scene | undefined
    const processOneSyncItem: Activities['processOneSyncItem'] = async (item) => {
      asked.push({ at: await (scene as Scene).now(), item })
      return item.attempt < 3 ? waits(item.attempt * 3_600) : ended
    }
    await stage.play({ processOneSyncItem }, async (played) => {
      scene = played
      const handle = await start<ProcessSyncItemResult>(scene, WORKFLOW.processSyncItem, { itemId: 5, tries: 3 })
      while ((await handle.query(processSyncItemState)).phase !== 'waiting');
      expect(await handle.query(processSyncItemState)).toEqual({ phase: 'waiting', attempts: 1 })
      expect(await handle.result()).toMatchObject({ outcome: 'success' })
      expect(await countEvents(handle, 'timerStartedEventAttributes')).toBe(2)
    })
    expect(asked.map(({ item }) => [item.attempt, item.tries])).toEqual([
      [1, 3],
      [2, 3],
      [3, 3],
    ])
    expect(new Set(asked.map(({ item }) => item.claim)).size).toBe(3)
    const gaps = asked.slice(1).map(({ at }, n) => (at - (asked[n]?.at as number)) / 1_000)
    expect(gaps[0]).toBeGreaterThanOrEqual(3_600)
    expect(gaps[1]).toBeGreaterThanOrEqual(7_200)
  })

  it('is tried once more for each deferral: that is none of its tries', async () => {
    const asked: OneItem[] = []
    const processOneSyncItem: Activities['processOneSyncItem'] = async (item) => {
      asked.push(item)
      return item.attempt < 3 ? { ...waits(60), isCounted: false } : ended
    }
    await stage.play({ processOneSyncItem }, async (scene) => {
      const handle = await start<ProcessSyncItemResult>(scene, WORKFLOW.processSyncItem, { itemId: 5 })
      expect(await handle.result()).toMatchObject({ outcome: 'success' })
    })
    expect(asked.map(({ attempt, tries }) => [attempt, tries])).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
    ])
  })

  it('gives a failure back as a result', async () => {
    const failed: OneItemResult = { ...ended, outcome: 'failed', status: 'failed', error: 'Error: no' }
    await stage.play({ processOneSyncItem: async () => failed }, async (scene) => {
      const handle = await start<ProcessSyncItemResult>(scene, WORKFLOW.processSyncItem, { itemId: 5 })
      expect(await handle.result()).toMatchObject({ outcome: 'failed', error: 'Error: no' })
    })
  })
})

describe('the commands', () => {
  it.each(['integrations:skip-sync-item', WORKFLOW.skipSyncItem])(
    '%s skips, and fails with what forbids it',
    async (name) => {
      let tries = 0
      const skipFailedItem: Activities['skipFailedItem'] = async ({ itemId }) => {
        tries += 1
        if (itemId === 6) throw ApplicationFailure.nonRetryable('it is success', 'sync_item_not_failed')
        return { itemId, integrationId: 7, stream: null, cursorMoved: true, reducerThrew: null }
      }
      await stage.play({ skipFailedItem }, async (scene) => {
        const done = await start(scene, name, { itemId: 5 })
        expect(await done.result()).toEqual({
          itemId: 5,
          integrationId: 7,
          stream: null,
          cursorMoved: true,
          reducerThrew: null,
        })
        const refused = await start(scene, name, { itemId: 6 })
        const error = await refused.result().catch((thrown: unknown) => thrown)
        expect((error as WorkflowFailedError).cause?.cause).toMatchObject({ message: 'it is success' })
      })
      expect(tries).toBe(2)
    },
  )

  it.each(['integrations:list-failed-items', WORKFLOW.listFailedItems])('%s lists', async (name) => {
    const asked: unknown[] = []
    const listFailedSyncItems: Activities['listFailedSyncItems'] = async (input) => {
      asked.push(input)
      return []
    }
    await stage.play({ listFailedSyncItems }, async (scene) => {
      expect(await (await start(scene, name, { integrationId: 7, limit: 3 })).result()).toEqual([])
      expect(await (await start(scene, name)).result()).toEqual([])
    })
    expect(asked).toEqual([{ integrationId: 7, limit: 3 }, {}])
  })

  it.each(['integrations:find-orphans', WORKFLOW.findOrphans])(
    '%s looks, and fails with what forbids it',
    async (name) => {
      const asked: unknown[] = []
      const found: FindOrphansResult = { model: 'note', scanned: 3, orphans: 1, rows: [{ id: '2', createdAt: null }] }
      const findOrphanRows: Activities['findOrphanRows'] = async (input) => {
        asked.push(input)
        if (input.model === 'note') return found
        throw ApplicationFailure.nonRetryable('no such model', 'invalid_argument')
      }
      await stage.play({ findOrphanRows }, async (scene) => {
        expect(await (await start(scene, name, { model: 'note', limit: 1 })).result()).toEqual(found)
        const refused = await start(scene, name)
        const error = await refused.result().catch((thrown: unknown) => thrown)
        expect((error as WorkflowFailedError).cause?.cause).toMatchObject({ message: 'no such model' })
      })
      expect(asked).toEqual([{ model: 'note', limit: 1 }, { model: '' }])
    },
  )

  it.each(['integrations:advance-cursor', WORKFLOW.advanceCursor])(
    '%s is tried until the database is back',
    async (name) => {
      let tries = 0
      const result = { runs: 2, from: '1', to: '2', reclaimed: 0 }
      const advanceSyncCursor: Activities['advanceSyncCursor'] = async () => {
        tries += 1
        if (tries < 3) throw new Error('the connection was refused')
        return result
      }
      await stage.play({ advanceSyncCursor }, async (scene) => {
        expect(await (await start(scene, name, { integrationId: 7 })).result()).toEqual(result)
      })
      expect(tries).toBe(3)
    },
  )
})

describe('a backfill', () => {
  interface Backfill {
    readonly calls: string[]
    readonly opened: { readonly from: string; readonly to: string; readonly runId: string }[]
    readonly activities: Partial<Activities>
  }

  /** Each slice has so many items. */
  function scripted(perSlice: number, replaced: (calls: string[]) => Partial<Activities> = () => ({})): Backfill {
    const calls: string[] = []
    const opened: Backfill['opened'] = []
    let sync = new ScriptedSync(perSlice)
    return {
      calls,
      opened,
      activities: {
        async openBackfillSlice({ from, to, runId }) {
          calls.push('open')
          opened.push({ from, to, runId })
          sync = new ScriptedSync(perSlice, { attempt: (id) => (id === 3 ? 'fails' : 'succeeds') })
          sync.scene = scene
          return { kind: 'open', syncLogId: 100 + opened.length, settings: sync.settings() }
        },
        async listSyncItems(input) {
          calls.push(`list ${input.syncLogId}`)
          return sync.listSyncItems()
        },
        async processSyncItems(batch) {
          calls.push(`items ${batch.syncLogId}`)
          return sync.processSyncItems(batch)
        },
        async finaliseSyncRun() {
          calls.push('finalise')
          return sync.finaliseSyncRun()
        },
        async failSyncRun({ reason }) {
          calls.push(`fail: ${reason}`)
        },
        async cancelSyncRun({ syncLogId }) {
          calls.push(`cancel ${syncLogId}`)
        },
        ...replaced(calls),
      },
    }
  }
  let scene: Scene | undefined
  const backfill = (played: Scene, input: Partial<BackfillInput>) => {
    scene = played
    return start<BackfillResult>(played, WORKFLOW.backfillSync, { integrationId: 7, ...input })
  }

  it('goes through its window in slices of 24 h, ascending, and adds them up; nothing is announced', async () => {
    const script = scripted(3)
    await stage.play(script.activities, async (played) => {
      const handle = await backfill(played, { from: '2026-03-01T00:00:00Z', to: '2026-03-03T06:00:00Z' })
      expect(await handle.result()).toEqual({ slices: 3, listed: 9, succeeded: 6, failed: 3, skipped: 0 })
      const runId = handle.firstExecutionRunId
      expect(script.opened).toEqual([
        { from: '2026-03-01T00:00:00.000Z', to: '2026-03-02T00:00:00.000Z', runId },
        { from: '2026-03-02T00:00:00.000Z', to: '2026-03-03T00:00:00.000Z', runId },
        { from: '2026-03-03T00:00:00.000Z', to: '2026-03-03T06:00:00.000Z', runId },
      ])
      expect(await handle.query(backfillProgress)).toMatchObject({ slices: 3, slicesDone: 3, listed: 9, succeeded: 6 })
    })
    const slice = (log: number) => ['open', `list ${log}`, `items ${log}`, 'finalise']
    expect(script.calls).toEqual([...slice(101), ...slice(102), ...slice(103)])
  })

  it('counts as its rows say: an item with a newer copy is skipped', async () => {
    const counts = { succeeded: 1, failed: 1, skipped: 1 }
    const script = scripted(3, () => ({
      finaliseSyncRun: async () => ({ kind: 'finalised', status: 'partial', ...counts, fullListing: false }),
    }))
    await stage.play(script.activities, async (played) => {
      const handle = await backfill(played, { from: '2026-03-01T00:00:00Z', to: '2026-03-03T00:00:00Z' })
      expect(await handle.result()).toEqual({ slices: 2, listed: 6, succeeded: 2, failed: 2, skipped: 2 })
    })
  })

  it('fails by the name of the slice whose listing is given up; those before it stay', async () => {
    const script = scripted(1, (calls) => ({
      async listSyncItems({ syncLogId }) {
        calls.push(`list ${syncLogId}`)
        if (syncLogId === 102) throw ApplicationFailure.nonRetryable('the token was refused', 'client')
        return { kind: 'listed', listed: 1, duplicatesDropped: 0 }
      },
    }))
    await stage.play(script.activities, async (played) => {
      const handle = await backfill(played, { from: '2026-03-01T00:00:00Z', to: '2026-03-04T00:00:00Z' })
      const error = await handle.result().catch((thrown: unknown) => thrown)
      expect((error as WorkflowFailedError).cause).toMatchObject({
        type: 'ListingFailed',
        message:
          'The listing of the slice from 2026-03-02T00:00:00.000Z to 2026-03-03T00:00:00.000Z did not end: the token was refused. Slices before it are done; start the backfill again from 2026-03-02T00:00:00.000Z. `integrations show-sync-run 102` has the log.',
      })
    })
    expect(script.calls.slice(-3)).toEqual(['open', 'list 102', 'fail: the token was refused'])
  })

  it.each([
    [
      'its end before its beginning',
      { to: '2026-02-28T00:00:00Z' },
      '"to": a time after 2026-03-01T00:00:00.000Z, the',
    ],
    ['of more than 3,660 days', { to: '2126-03-01T00:00:00Z' }, '"to": at most 3660 days after the beginning'],
    ['an end that there is not', { to: '2026-13-01T00:00:00Z' }, '"to": a moment in ISO 8601 with its offset is'],
    ['a day that there is not', { to: '2026-06-31T00:00:00Z' }, '"2026-06-31T00:00:00Z" was given.'],
    ['a beginning without its offset', { from: '2026-03-01T00:00:00' }, '"from": a moment in ISO 8601 with its offset'],
    ['no end', { to: undefined }, '"to": a moment in ISO 8601 with its offset is allowed, such as'],
  ])('is refused with a window that has %s', async (_, wrong, message) => {
    await stage.play({}, async (played) => {
      const window = { from: '2026-03-01T00:00:00Z', to: '2026-03-04T00:00:00Z', ...(wrong as object) }
      expect(await failureOf(await backfill(played, window))).toMatchObject({
        type: 'invalid_argument',
        message: expect.stringContaining(message),
      })
    })
  })

  it('fails by the name of the slice that may not be opened; those before it stay', async () => {
    const script = scripted(1)
    const activities: Partial<Activities> = {
      ...script.activities,
      async openBackfillSlice(slice) {
        if (script.calls.includes('finalise'))
          return { kind: 'nothing to do', reason: 'the integration is switched off' }
        return script.activities.openBackfillSlice?.(slice) ?? expect.unreachable()
      },
    }
    await stage.play(activities, async (played) => {
      const handle = await backfill(played, { from: '2026-03-01T00:00:00Z', to: '2026-03-04T00:00:00Z' })
      expect(await failureOf(handle)).toMatchObject({
        type: 'BackfillCutShort',
        message:
          'The slice from 2026-03-02T00:00:00.000Z to 2026-03-03T00:00:00.000Z could not be opened: the integration is switched off. Slices before it are done; once that is mended, start the backfill again from 2026-03-02T00:00:00.000Z to 2026-03-04T00:00:00.000Z.',
      })
    })
    expect(script.calls.filter((call) => call === 'finalise')).toHaveLength(1)
  })

  it('goes on where `retryItem` came without an input', async () => {
    const signalled = occasion()
    const script = scripted(1, () => ({
      async listSyncItems() {
        await signalled.happened
        return { kind: 'listed', listed: 0, duplicatesDropped: 0 }
      },
      finaliseSyncRun: async () => new ScriptedSync(0).finaliseSyncRun(),
    }))
    await stage.play(script.activities, async (played) => {
      const handle = await backfill(played, { from: '2026-03-01T00:00:00Z', to: '2026-03-02T00:00:00Z' })
      await handle.signal(retryItem.name)
      signalled.happen()
      expect(await handle.result()).toMatchObject({ slices: 1 })
      expect(await countEvents(handle, 'workflowTaskFailedEventAttributes')).toBe(0)
    })
  })

  it('voids the slice at work when it is cancelled', async () => {
    const script = scripted(1, (calls) => ({
      async listSyncItems({ syncLogId }) {
        calls.push(`list ${syncLogId}`)
        return { kind: 'deferred', retryAfterSeconds: 86_400, isBookmarked: true }
      },
    }))
    await stage.play(script.activities, async (played) => {
      const handle = await backfill(played, { from: '2026-03-01T00:00:00Z', to: '2026-03-04T00:00:00Z' })
      while (!script.calls.includes('list 101')) await handle.query(backfillProgress)
      await handle.cancel()
      await expect(handle.result()).rejects.toBeInstanceOf(WorkflowFailedError)
    })
    expect(script.calls).toEqual(['open', 'list 101', 'cancel 101'])
  })

  it('voids a slice that opens only after the grace of its cancellation', async () => {
    const sync = new ScriptedSync(1)
    const script = scripted(1, (calls) => ({
      async openBackfillSlice() {
        calls.push('open')
        // The tries come after 1, 2, 4, 8, 16 and 30 s.
        if (calls.length < 7) throw new Error('Postgres is away')
        return { kind: 'open', syncLogId: 101, settings: sync.settings() }
      },
    }))
    await stage.play(script.activities, async (played) => {
      sync.scene = played
      const handle = await backfill(played, { from: '2026-03-01T00:00:00Z', to: '2026-03-04T00:00:00Z' })
      while (script.calls.length === 0) await handle.query(backfillProgress)
      await handle.cancel()
      await expect(handle.result()).rejects.toBeInstanceOf(WorkflowFailedError)
    })
    expect(script.calls).toEqual([...Array.from({ length: 7 }, () => 'open'), 'cancel 101'])
  })

  it('of many slices goes on in a new history, at the slice that is next', async () => {
    const days = 130
    const script = scripted(1)
    await stage.play(script.activities, async (played) => {
      const from = Date.UTC(2025, 0, 1)
      const to = new Date(from + days * 86_400_000).toISOString()
      const handle = await backfill(played, { from: new Date(from).toISOString(), to })
      expect(await handle.result()).toEqual({ slices: days, listed: days, succeeded: days, failed: 0, skipped: 0 })
      const first = handleOf(played, handle.firstExecutionRunId)
      expect(await countEvents(first, 'workflowExecutionContinuedAsNewEventAttributes')).toBe(1)
      expect(await countEvents(first)).toBeLessThan(2_200)
      expect(new Set(script.opened.map(({ runId }) => runId))).toEqual(new Set([handle.firstExecutionRunId]))
    })
    expect(new Set(script.opened.map(({ from }) => from)).size).toBe(days)
    expect(script.opened).toHaveLength(days)
  })
})
