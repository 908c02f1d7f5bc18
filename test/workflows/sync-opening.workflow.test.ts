/** A run from where the activity that opened it has left it. */
import { Context } from '@temporalio/activity'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { FirstSteps } from '../../src/activities/small-run.ts'
import { cancel, pause, resume, syncProgress } from '../../src/workflows/messages.ts'
import { occasion } from '../support/integrations.ts'
import { ScriptedSync } from './scripted-sync.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, openStage, startSync } from './stage.ts'

const LISTED = { kind: 'listed', listed: 2, duplicatesDropped: 0 } as const
const SUCCESS = {
  kind: 'finalised',
  status: 'success',
  succeeded: 2,
  failed: 0,
  skipped: 0,
  fullListing: false,
} as const
const batch = { claimed: 2, succeeded: 2, failed: 0, waiting: [], deferredSeconds: 0 }

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

/** @param first how far the opening came */
function opened(
  first: FirstSteps,
  during: (handle: Awaited<ReturnType<typeof startSync>>, sync: ScriptedSync, asked: unknown[]) => Promise<void>,
  { pending = 2, replaced = {} }: { pending?: number; replaced?: Partial<Activities> } = {},
): Promise<void> {
  const sync = new ScriptedSync(2)
  sync.pending = pending
  const asked: unknown[] = []
  const openSyncRun: Activities['openSyncRun'] = async (input) => {
    asked.push(input)
    sync.calls.push('open')
    return { kind: 'open', syncLogId: 70, settings: sync.settings(), first }
  }
  return stage.play(sync.activities({ openSyncRun, ...replaced }), async (scene: Scene) => {
    sync.scene = scene
    await during(await startSync(scene), sync, asked)
  })
}

describe('a run whose opening', () => {
  it('has ended it takes one activity and two workflow tasks', () =>
    opened({ listing: LISTED, batch, end: SUCCESS }, async (handle, sync, asked) => {
      expect(await handle.result()).toEqual({
        kind: 'finalised',
        status: 'success',
        succeeded: 2,
        failed: 0,
        skipped: 0,
      })
      expect(await countEvents(handle, 'activityTaskScheduledEventAttributes')).toBe(1)
      expect(await countEvents(handle, 'workflowTaskCompletedEventAttributes')).toBe(2)
      expect(sync.calls).toEqual(['open'])
      expect(asked).toEqual([expect.objectContaining({ goesOnAs: `${handle.firstExecutionRunId}:1` })])
      expect(await handle.query(syncProgress)).toMatchObject({ phase: 'done', listed: 2, succeeded: 2, syncLogId: 70 })
    }))

  it('has ended it asks what is gone at the provider after a full listing', () =>
    opened({ listing: LISTED, batch, end: { ...SUCCESS, fullListing: true } }, async (handle, sync) => {
      await handle.result()
      expect(sync.calls).toEqual(['open', 'missing'])
    }))

  it('has only listed it goes on with the items', () =>
    opened({ listing: LISTED }, async (handle, sync) => {
      expect(await handle.result()).toMatchObject({ status: 'success', succeeded: 2 })
      expect(sync.calls).toEqual(['open', 'pending', 'finalise', 'announce'])
    }))

  it('has left an item waiting tries that one again after its wait', () =>
    opened(
      { listing: LISTED, batch: { ...batch, succeeded: 1, waiting: [{ id: 1, seconds: 60 }] } },
      async (handle, sync) => {
        sync.waiting.add(1)
        sync.ended.set(2, 'succeeded')
        const startedAt = await sync.scene?.now()
        expect(await handle.result()).toMatchObject({ status: 'success', succeeded: 2 })
        expect(sync.calls).toEqual(['open', 'due', 'finalise', 'announce'])
        expect((sync.batches[0]?.at ?? 0) - (startedAt ?? 0)).toBeGreaterThanOrEqual(55_000)
      },
      { pending: 0 },
    ))

  it('met a reducer that throws counts it as the first of ten tries', async () => {
    const askedAt: number[] = []
    let scene: Scene | undefined
    const finaliseSyncRun: Activities['finaliseSyncRun'] = async () => {
      askedAt.push((await scene?.now()) ?? 0)
      return { kind: 'reducer threw', reason: 'Error: no order' }
    }
    await opened(
      { listing: LISTED, batch, end: { kind: 'reducer threw', reason: 'Error: no order' } },
      async (handle, sync) => {
        scene = sync.scene
        const startedAt = (await scene?.now()) ?? 0
        await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'ReducerThrew' } })
        expect(askedAt).toHaveLength(9)
        expect((askedAt[0] ?? 0) - startedAt).toBeGreaterThanOrEqual(5_000)
      },
      { pending: 0, replaced: { finaliseSyncRun } },
    )
  })

  it('has left items pending takes them in', () =>
    opened({ listing: LISTED, batch: { ...batch, claimed: 200, succeeded: 1 } }, async (handle, sync) => {
      sync.pending = 1
      await handle.result()
      expect(sync.calls).toEqual(['open', 'pending', 'finalise', 'announce'])
    }))

  it.each([
    ['met a fault of the listing lists again after 10 s', { kind: 'own', reason: 'boom', isFinal: false }, 10_000],
    [
      'met the limit of the provider lists again after it',
      { kind: 'deferred', retryAfterSeconds: 30, isBookmarked: false },
      30_000,
    ],
    ['lost its worker lists again at once', { kind: 'worker lost' }, 0],
  ] as const)('%s, as the second call', (_, listing, waitMs) => {
    const calls: { attempt: number; at: number }[] = []
    let scene: Scene | undefined
    const listSyncItems: Activities['listSyncItems'] = async ({ attempt }) => {
      calls.push({ attempt, at: (await scene?.now()) ?? 0 })
      return LISTED
    }
    return opened(
      { listing },
      async (handle, sync) => {
        scene = sync.scene
        const startedAt = (await scene?.now()) ?? 0
        expect(await handle.result()).toMatchObject({ status: 'success' })
        expect(calls).toEqual([{ attempt: 2, at: expect.any(Number) }])
        expect((calls[0]?.at ?? 0) - startedAt).toBeGreaterThanOrEqual(waitMs - 5_000)
      },
      { replaced: { listSyncItems } },
    )
  })

  it('lost its worker for longer than sync.lock_ttl lists again: the time without a worker does not count', () => {
    const scripted = new ScriptedSync(2)
    const openSyncRun: Activities['openSyncRun'] = async () => {
      // Below the heartbeat timeout, after which the server would make another try.
      await stage.env.sleep('14 seconds')
      const settings = { ...scripted.settings(), listingTotalSeconds: 10 }
      return { kind: 'open', syncLogId: 70, settings, first: { listing: { kind: 'worker lost', tookMs: 0 } } }
    }
    return stage.play(scripted.activities({ openSyncRun }), async (scene: Scene) => {
      scripted.scene = scene
      expect(await (await startSync(scene)).result()).toMatchObject({ status: 'success', succeeded: 2 })
    })
  })

  it('met a fault that no other call changes is given up', () =>
    opened({ listing: { kind: 'own', reason: 'no such account', isFinal: true } }, async (handle, sync) => {
      await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'ListingFailed' } })
      expect(sync.calls).toEqual(['open', 'fail'])
      expect(sync.failure).toBe('no such account')
    }))
})

describe('while the opening goes on', () => {
  /** An opening that takes as long as the test says. */
  function slow() {
    const [asked, goOn] = [occasion(), occasion()]
    const openSyncRun: Activities['openSyncRun'] = async () => {
      const context = Context.current()
      const beats = setInterval(() => context.heartbeat(), 100)
      try {
        asked.happen()
        await Promise.race([goOn.happened, context.cancelled])
      } finally {
        clearInterval(beats)
      }
      return { kind: 'open', syncLogId: 70, settings: scripted.settings(), first: { listing: LISTED } }
    }
    const scripted = new ScriptedSync(2)
    return { asked, goOn, openSyncRun, scripted }
  }

  it.each([
    ['its run', 70, ['cancel', 'announce']],
    ['no run', null, []],
  ] as const)('a cancellation ends %s', (_, syncLogId, ends) => {
    const { asked, openSyncRun, scripted } = slow()
    const found: unknown[] = []
    const findOpenedRun: Activities['findOpenedRun'] = async (input) => {
      found.push(input)
      return syncLogId
    }
    return stage.play(scripted.activities({ openSyncRun, findOpenedRun }), async (scene) => {
      scripted.scene = scene
      const handle = await startSync(scene)
      await asked.happened
      await handle.signal(cancel)
      expect(await handle.result()).toEqual({ kind: 'cancelled' })
      expect(found).toEqual([{ integrationId: expect.any(Number), runId: handle.firstExecutionRunId }])
      expect(scripted.calls).toEqual(ends)
    })
  })

  const during = (
    play: (handle: Awaited<ReturnType<typeof startSync>>, goOn: () => void, scripted: ScriptedSync) => Promise<void>,
  ) => {
    const { asked, goOn, openSyncRun, scripted } = slow()
    return stage.play(scripted.activities({ openSyncRun }), async (scene) => {
      scripted.scene = scene
      const handle = await startSync(scene)
      await asked.happened
      await play(handle, () => goOn.happen(), scripted)
    })
  }

  it('a pause lets it go on, and holds what comes after', () =>
    during(async (handle, goOn, { calls }) => {
      await handle.signal(pause)
      goOn()
      await expect.poll(async () => (await handle.query(syncProgress)).listed).toBe(2)
      expect(calls).toEqual([])
      await handle.signal(resume)
      expect(await handle.result()).toMatchObject({ status: 'success' })
    }))

  it('progress says how far it is', () =>
    during(async (handle, goOn) => {
      expect(await handle.query(syncProgress)).toMatchObject({ phase: 'opening', syncLogId: null })
      await handle.signal('began', { syncLogId: 70, phase: 'processing', listed: 2 })
      expect(await handle.query(syncProgress)).toMatchObject({ phase: 'processing', syncLogId: 70, listed: 2 })
      goOn()
      await handle.result()
    }))

  it('progress keeps what its end has said, where its word of how far it is comes late', () =>
    during(async (handle, goOn) => {
      await handle.signal(pause)
      goOn()
      const held = { phase: 'processing', listed: 2 }
      await expect.poll(() => handle.query(syncProgress)).toMatchObject(held)
      await handle.signal('began', { syncLogId: 70, phase: 'listing', listed: null })
      expect(await handle.query(syncProgress)).toMatchObject(held)
      await handle.signal(resume)
      await handle.result()
    }))
})
