import { ApplicationFailure, Context } from '@temporalio/activity'
import type { WorkflowFailedError } from '@temporalio/client'
import { Worker } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { Finalisation } from '../../src/syncs/finalisation.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { cancel, itemsChanged, pause, resume, retryItem, skipItem, syncProgress } from '../../src/workflows/messages.ts'
import { occasion } from '../support/integrations.ts'
import { SOON } from '../support/soon.ts'
import { ScriptedSync } from './scripted-sync.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, lifetimeMs, openStage, SHUTDOWN_FORCE_TIME, seen, startSync } from './stage.ts'

const BATCH = 200

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

type Run = Awaited<ReturnType<typeof startSync>>

function withRun<Result>(
  sync: ScriptedSync,
  during: (run: Run, scene: Scene) => Promise<Result>,
  replaced?: Partial<Activities>,
): Promise<Result> {
  return stage.play(sync.activities(replaced), async (scene) => {
    sync.scene = scene
    return during(await startSync(scene), scene)
  })
}

/** An activity that works until it is told to stop, and says how it was meant. */
async function untilStopped(): Promise<void> {
  const context = Context.current()
  const signsOfLife = setInterval(() => context.heartbeat(), 50)
  try {
    await context.cancelled.catch(() => {})
  } finally {
    clearInterval(signsOfLife)
  }
}

describe('a pause without a run', () => {
  let lateWorkers = 0
  const paused = (scene: Pick<Scene, 'client' | 'taskQueue' | 'workflowId'>) =>
    scene.client.signalWithStart(WORKFLOW.syncIntegration, {
      workflowId: scene.workflowId,
      taskQueue: scene.taskQueue,
      args: [{ integrationId: 7 }],
      signal: pause,
      signalArgs: [],
    })

  it('opens nothing and holds the id, so that none starts; resume ends it', async () => {
    const sync = new ScriptedSync(1)
    await stage.play(sync.activities(), async (scene) => {
      const held = await paused(scene)
      expect(await seen(scene, () => true)).toMatchObject({ phase: 'held', isPaused: true, syncLogId: null })
      await expect(startSync(scene)).rejects.toMatchObject({ name: 'WorkflowExecutionAlreadyStartedError' })
      await stage.env.sleep('2 days')
      await held.signal(resume)
      expect(await held.result()).toMatchObject({ kind: 'not this time', reason: expect.stringContaining('pause') })
      expect(await lifetimeMs(handleOf(scene))).toBeGreaterThan(48 * 3_600_000)
    })
    expect(sync.calls).toEqual([])
  })

  it('that has ended before a worker took the first task starts no run', async () => {
    const sync = new ScriptedSync(1)
    const end = await withLateWorker(sync, async (held, whileAtWork) => {
      await held.signal(resume)
      return whileAtWork(() => held.result())
    })
    expect(end).toMatchObject({ kind: 'not this time', reason: expect.stringContaining('pause') })
    expect(sync.calls).toEqual([])
  })

  it('that came again before a worker took the first task holds: the order of the signals decides', async () => {
    const sync = new ScriptedSync(1)
    await withLateWorker(sync, async (held, whileAtWork) => {
      await held.signal(resume)
      await held.signal(pause)
      await whileAtWork(async () => {
        expect(await held.query(syncProgress)).toMatchObject({ phase: 'held', isPaused: true })
        await held.signal(resume)
        expect(await held.result()).toMatchObject({ kind: 'not this time' })
      })
    })
    expect(sync.calls).toEqual([])
  })

  type Held = Awaited<ReturnType<typeof paused>>
  /** A paused run whose signals come before a worker takes its first task. */
  async function withLateWorker<Result>(
    sync: ScriptedSync,
    signalled: (held: Held, whileAtWork: <End>(during: () => Promise<End>) => Promise<End>) => Promise<Result>,
  ): Promise<Result> {
    lateWorkers += 1
    const taskQueue = `paused-without-a-worker-${lateWorkers}`
    const workflowId = `${taskQueue}:sync:7`
    const held = await paused({ client: stage.env.client.workflow, taskQueue, workflowId })
    return signalled(held, async (during) => {
      const worker = await Worker.create({
        connection: stage.env.nativeConnection,
        taskQueue,
        workflowBundle: stage.bundle,
        activities: sync.activities(),
        shutdownForceTime: SHUTDOWN_FORCE_TIME,
      })
      return worker.runUntil(during())
    })
  }

  it('is ended by cancel', async () => {
    const sync = new ScriptedSync(1)
    await stage.play(sync.activities(), async (scene) => {
      const held = await paused(scene)
      await held.signal(cancel)
      expect(await held.result()).toEqual({ kind: 'cancelled' })
    })
    expect(sync.calls).toEqual([])
  })
})

describe('a pause', () => {
  it('stops the intake while what runs finishes; resume goes on with the rest', async () => {
    const total = 10 * BATCH
    const signalled = occasion()
    const sync: ScriptedSync = new ScriptedSync(total, { during: () => signalled.happened })
    await withRun(sync, async (run, scene) => {
      await seen(scene, () => sync.running === 4)
      await run.signal(pause)
      signalled.happen()
      expect(await seen(scene, ({ succeeded }) => succeeded === 4 * BATCH)).toMatchObject({
        phase: 'processing',
        isPaused: true,
        secondsLeft: null,
      })
      await stage.env.sleep('3 hours')
      expect(sync.batches).toHaveLength(4)

      await run.signal(resume)
      expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: total })
      expect(await handleOf(scene).query(syncProgress)).toMatchObject({ isPaused: false, phase: 'done' })
    })
    expect(sync.batches).toHaveLength(total / BATCH)
  })

  it('does not count for the rate', async () => {
    const sync = new ScriptedSync(2, {
      attempt: (id, attempt) => (id === 1 || attempt > 1 ? 'succeeds' : { retryAfter: 60 }),
    })
    await withRun(sync, async (run, scene) => {
      await seen(scene, ({ succeeded }) => succeeded === 1)
      await run.signal(pause)
      await seen(scene, ({ isPaused }) => isPaused)
      await stage.env.sleep('10 hours')
      await run.signal(resume)
      await run.result()
      // Less than two minutes of work for two items, not ten hours.
      expect((await handleOf(scene).query(syncProgress)).perSecond).toBeGreaterThan(1 / 60)
    })
  })

  it('holds retries that come due, and the finalisation', async () => {
    const sync = new ScriptedSync(1, { attempt: (_id, attempt) => (attempt > 1 ? 'succeeds' : { retryAfter: 60 }) })
    await withRun(sync, async (run, scene) => {
      await seen(scene, ({ waiting }) => waiting === 1)
      await run.signal(pause)
      await stage.env.sleep('1 hour')
      expect(sync.attemptsOf(1)).toHaveLength(1)
      await run.signal(resume)
      expect(await run.result()).toMatchObject({ succeeded: 1 })
    })

    const ended: ScriptedSync = new ScriptedSync(1, { during: () => handleOf(ended.scene as Scene).signal(pause) })
    await withRun(ended, async (run, scene) => {
      await seen(scene, ({ succeeded }) => succeeded === 1)
      await stage.env.sleep('1 hour')
      expect(ended.calls).toEqual(['open', 'list', 'pending'])
      await run.signal(resume)
      expect(await run.result()).toMatchObject({ succeeded: 1 })
    })
  })

  it('lets a listing go on, and holds its next call', async () => {
    let calls = 0
    const sync = new ScriptedSync(1)
    const listSyncItems: Activities['listSyncItems'] = async () => {
      calls += 1
      if (calls > 1) return sync.listSyncItems()
      await handleOf(sync.scene as Scene).signal(pause)
      throw new Error('not now')
    }
    await withRun(
      sync,
      async (run, scene) => {
        await seen(scene, ({ isPaused }) => isPaused)
        await stage.env.sleep('3 hours')
        expect(calls).toBe(1)
        await run.signal(resume)
        // The hours of the pause are not those of sync.lock_ttl.
        expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: 1 })
      },
      { listSyncItems },
    )
    expect(calls).toBe(2)
  })
})

describe.each([
  ['the signal', (run: Run) => run.signal(cancel)],
  ['Temporal', (run: Run) => run.cancel()],
] as const)('a cancellation by %s', (by, ask) => {
  /** The signal has a result, Temporal's own cancellation is Temporal's. */
  async function isCancelled(run: Run): Promise<void> {
    const end = await run.result().catch((error: unknown) => error)
    if (by === 'the signal') expect(end).toEqual({ kind: 'cancelled' })
    else expect((end as WorkflowFailedError).cause).toMatchObject({ name: 'CancelledFailure' })
  }

  it('while listing stops the listing and voids the run', async () => {
    const sync = new ScriptedSync(1)
    const began = occasion()
    const listSyncItems: Activities['listSyncItems'] = async () => {
      began.happen()
      await untilStopped()
      sync.calls.push('stopped')
      return Context.current().cancelled
    }
    await withRun(
      sync,
      async (run) => {
        await began.happened
        await ask(run)
        await isCancelled(run)
      },
      { listSyncItems },
    )
    expect(sync.calls).toEqual(['open', 'stopped', 'cancel', 'announce'])
  })

  it('while items run lets them finish, and starts no batch', async () => {
    const sync: ScriptedSync = new ScriptedSync(10 * BATCH, { during: untilStopped })
    await withRun(sync, async (run, scene) => {
      await seen(scene, () => sync.running === 4)
      await ask(run)
      await isCancelled(run)
      expect(await handleOf(scene).query(syncProgress)).toMatchObject({ phase: 'done', succeeded: 4 * BATCH })
    })
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'pending', 'pending', 'pending', 'cancel', 'announce'])
  })

  it('while items wait for a retry ends at once', async () => {
    const sync = new ScriptedSync(1, { attempt: () => ({ retryAfter: 86_400 }) })
    await withRun(sync, async (run, scene) => {
      await seen(scene, ({ waiting }) => waiting === 1)
      await ask(run)
      await isCancelled(run)
      expect(await lifetimeMs(handleOf(scene))).toBeLessThan(60_000)
    })
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'cancel', 'announce'])
  })

  it('while paused ends the pause with the run', async () => {
    const sync: ScriptedSync = new ScriptedSync(1, { during: () => handleOf(sync.scene as Scene).signal(pause) })
    await withRun(sync, async (run, scene) => {
      await seen(scene, ({ succeeded }) => succeeded === 1)
      await ask(run)
      await isCancelled(run)
    })
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'cancel', 'announce'])
  })
})

describe('a cancellation', () => {
  it('that comes after the finalisation changes nothing: the run is announced', async () => {
    const sync = new ScriptedSync(2_001)
    sync.isListenedTo = true
    const announceSyncRun = async () => {
      await handleOf(sync.scene as Scene).signal(cancel)
      return sync.announceSyncRun()
    }
    await withRun(
      sync,
      async (run) => {
        expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: 2_001 })
      },
      { announceSyncRun },
    )
    expect(sync.calls.slice(-2)).toEqual(['finalise', 'announce'])
  })
})

describe('a pause that comes while the run tells of its end', () => {
  it('holds the id: none starts until resume', async () => {
    const sync = new ScriptedSync(1)
    sync.isListenedTo = true
    const announceSyncRun = async () => {
      await handleOf(sync.scene as Scene).signal(pause)
      return sync.announceSyncRun()
    }
    await withRun(
      sync,
      async (run, scene) => {
        expect(await seen(scene, ({ phase }) => phase === 'held')).toMatchObject({ isPaused: true, succeeded: 1 })
        await expect(startSync(scene)).rejects.toThrow('already started')
        await run.signal(resume)
        expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: 1 })
      },
      { announceSyncRun },
    )
  })
})

describe('a pause that comes while the run is given up', () => {
  type GivenUp = (pausing: () => Promise<void>) => Partial<Activities>
  const byListing: GivenUp = (pausing) => ({
    async listSyncItems() {
      await pausing()
      throw ApplicationFailure.nonRetryable('no such list')
    },
  })
  const byReducer: GivenUp = (pausing) => {
    let tries = 0
    return {
      async finaliseSyncRun() {
        tries += 1
        if (tries === 10) await pausing()
        return { kind: 'reducer threw', reason: 'Error: no order' }
      },
    }
  }

  it.each([
    ['for its listing', byListing, 'resume', { ending: resume, first: 'open', type: 'ListingFailed' }],
    ['for its listing', byListing, 'cancel', { ending: cancel, first: 'open', type: 'ListingFailed' }],
    ['for its reducer', byReducer, 'resume', { ending: resume, first: 'pending', type: 'ReducerThrew' }],
  ])('$0 holds the id: none starts until $2', async (_, givenUp, _name, { ending, first, type }) => {
    const sync: ScriptedSync = new ScriptedSync(1)
    const pausing = () => handleOf(sync.scene as Scene).signal(pause)
    await withRun(
      sync,
      async (run, scene) => {
        await until(async () => sync.calls.includes(first))
        await stage.env.sleep('1 hour')
        expect(await seen(scene, ({ phase }) => phase === 'held')).toMatchObject({ isPaused: true })
        await expect(startSync(scene)).rejects.toThrow('already started')
        await run.signal(ending)
        await expect(run.result()).rejects.toMatchObject({ cause: { type } })
      },
      givenUp(pausing),
    )
    expect(sync.calls.filter((call) => call === 'cancel')).toEqual([])
  })
})

describe('signals about one item', () => {
  // First: once a child's start was refused, the test server skips no time any more.
  it('try one now that waits beyond the list of the run', async () => {
    const total = 600
    const attempt = (_: number, n: number) => (n === 1 ? { putOffFor: 3_600 } : 'succeeds')
    const sync = new ScriptedSync(total, { attempt })
    // As the activity itself answers of a row that its run has.
    const refused = { outcome: 'not failed', status: 'processing', attempts: 1, error: null } as const
    const replaced: Partial<Activities> = {
      processOneSyncItem: async ({ itemId }) => ({ itemId, ...refused, waitSeconds: null, isCounted: false }),
    }
    // The last of each batch: the list has no room for those of the batch that ends last.
    const asked = [BATCH, 2 * BATCH, total]
    await withRun(
      sync,
      async (run, scene) => {
        await seen(scene, ({ waiting }) => waiting === total)
        for (const itemId of asked) await run.signal(retryItem, { itemId })
        await until(async () => asked.every((id) => sync.attemptsOf(id).length >= 2))
        expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: total })
      },
      replaced,
    )
    for (const id of asked) expect(sync.gapsOf(id)[0]).toBeLessThan(600)
  })

  it('retry it by a workflow of its own, once at a time, which outlives the run', async () => {
    const asked: unknown[] = []
    const over = occasion()
    const listed = occasion()
    const sync = new ScriptedSync(1)
    const replaced: Partial<Activities> = {
      async listSyncItems() {
        await listed.happened
        return sync.listSyncItems()
      },
      async processOneSyncItem({ claim, ...item }) {
        asked.push({ ...item, claim: claim.slice(0, 6) })
        await over.happened
        return {
          itemId: item.itemId,
          outcome: 'success',
          status: 'success',
          attempts: 2,
          error: null,
          waitSeconds: null,
          isCounted: true,
        }
      },
    }
    await withRun(
      sync,
      async (run, scene) => {
        await run.signal(retryItem, { itemId: 5, tries: 3 })
        await run.signal(retryItem, { itemId: 5 })
        const retry = scene.client.getHandle(scene.workflowId.replace(/sync:7$/, 'sync-item:5'))
        await until(async () => (await countEvents(run, 'startChildWorkflowExecutionFailedEventAttributes')) === 1)
        listed.happen()
        expect(await run.result()).toMatchObject({ kind: 'finalised' })
        expect((await retry.describe()).status.name).toBe('RUNNING')
        over.happen()
        expect(await retry.result()).toMatchObject({ itemId: 5, outcome: 'success' })
      },
      replaced,
    )
    expect(asked).toMatchObject([{ itemId: 5, attempt: 1, tries: 3, claim: 'retry-' }])
  })

  it('try an item that waits for another attempt now, and not after its hour', async () => {
    const attempt = (id: number, n: number) => (id === 1 && n === 1 ? { retryAfter: 3_600 } : 'succeeds')
    const sync = new ScriptedSync(2, { attempt })
    await withRun(sync, async (run, scene) => {
      expect(await seen(scene, ({ waiting }) => waiting === 1)).toMatchObject({
        nextAttemptAt: expect.stringMatching(/Z$/),
        secondsLeft: expect.toSatisfy((seconds: number) => seconds > 3_000),
      })
      await run.signal(retryItem, { itemId: 1 })
      expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: 2 })
      expect(await countEvents(run, 'startChildWorkflowExecutionInitiatedEventAttributes')).toBe(0)
    })
    expect(sync.gapsOf(1)[0]).toBeLessThan(600)
  })

  it('skip it, and a refusal harms nobody', async () => {
    const skipped: number[] = []
    const listed = occasion()
    const sync = new ScriptedSync(1)
    const replaced: Partial<Activities> = {
      async listSyncItems() {
        await listed.happened
        return sync.listSyncItems()
      },
      async skipFailedItem({ itemId }) {
        skipped.push(itemId)
        // As the activity itself refuses.
        if (itemId === 6) throw ApplicationFailure.nonRetryable('it is success', 'sync_item_not_failed')
        return { itemId, integrationId: 7, stream: null, cursorMoved: false, reducerThrew: null }
      },
    }
    await withRun(
      sync,
      async (run) => {
        await run.signal(skipItem, { itemId: 6 })
        await run.signal(skipItem, { itemId: 5 })
        await until(async () => skipped.length === 2)
        listed.happen()
        expect(await run.result()).toMatchObject({ kind: 'finalised' })
      },
      replaced,
    )
    expect(skipped.sort()).toEqual([5, 6])
  })

  it('do nothing without an input, as the Temporal UI sends them where its field stays empty', async () => {
    const listed = occasion()
    const sync = new ScriptedSync(1)
    const replaced: Partial<Activities> = {
      async listSyncItems() {
        await listed.happened
        return sync.listSyncItems()
      },
    }
    await withRun(
      sync,
      async (run) => {
        for (const signal of [retryItem.name, skipItem.name]) {
          await run.signal(signal)
          await run.signal(signal, null)
        }
        listed.happen()
        expect(await run.result()).toMatchObject({ kind: 'finalised' })
        expect(await countEvents(run, 'workflowTaskFailedEventAttributes')).toBe(0)
      },
      replaced,
    )
  })

  it('are carried out to the end although the run is over', async () => {
    const skipped = occasion()
    const mayEnd = occasion()
    const sync = new ScriptedSync(0)
    const replaced: Partial<Activities> = {
      async finaliseSyncRun() {
        await skipped.happened
        return sync.finaliseSyncRun()
      },
      async skipFailedItem({ itemId }) {
        skipped.happen()
        await mayEnd.happened
        sync.calls.push('skip')
        return { itemId, integrationId: 7, stream: null, cursorMoved: false, reducerThrew: null }
      },
    }
    await withRun(
      sync,
      async (run) => {
        await run.signal(skipItem, { itemId: 5 })
        await until(async () => sync.calls.includes('announce'))
        mayEnd.happen()
        expect(await run.result()).toMatchObject({ kind: 'finalised' })
      },
      replaced,
    )
    expect(sync.calls).toEqual(['open', 'list', 'finalise', 'announce', 'skip'])
  })

  it('wake a run that waits for rows held elsewhere', async () => {
    const sync = new ScriptedSync(1)
    const lookedAt: number[] = []
    const finaliseSyncRun = async (): Promise<Finalisation> => {
      lookedAt.push(await (sync.scene as Scene).now())
      return lookedAt.length === 1 ? { kind: 'unfinished', pending: 0, waiting: [] } : sync.finaliseSyncRun()
    }
    await withRun(
      sync,
      async (run) => {
        await until(async () => lookedAt.length === 1)
        await run.signal(itemsChanged)
        await until(async () => lookedAt.length === 2)
        expect(await run.result()).toMatchObject({ kind: 'finalised' })
      },
      { finaliseSyncRun },
    )
    expect((lookedAt[1] as number) - (lookedAt[0] as number)).toBeLessThan(20_000)
  })
})

describe('a cancelled run', () => {
  // A server of its own: an activity that outlives its workflow keeps a server's time from skipping, as what earlier tests left does.
  let own: Stage
  beforeAll(async () => {
    own = await openStage()
  })
  afterAll(() => own.close())

  it('waits 30 s for items that do not listen, and then ends the run without them', async () => {
    const over = occasion()
    const sync: ScriptedSync = new ScriptedSync(1, { during: () => over.happened })
    await own.play(sync.activities(), async (scene) => {
      sync.scene = scene
      const run = await startSync(scene)
      await seen(scene, () => sync.running === 1)
      const askedAt = await scene.now()
      await run.signal(cancel)
      await until(async () => (await countEvents(run, 'timerStartedEventAttributes')) === 1)
      const waitsAt = await scene.now()
      const ended = run.result()
      // All of the wait but its last second is slept through.
      await own.env.sleep('29 seconds')
      expect(await ended).toEqual({ kind: 'cancelled' })
      const { closeTime } = await run.describe()
      const endedAt = closeTime?.getTime() ?? Number.NaN
      expect(endedAt - askedAt).toBeGreaterThanOrEqual(30_000)
      expect(endedAt - waitsAt).toBeLessThan(60_000)
      over.happen()
    })
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'cancel', 'announce'])
  })
})

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + SOON.timeout
  while (!(await isSo())) {
    if (performance.now() > giveUpAt) throw new Error('it did not come about')
    await new Promise((resolve) => setImmediate(resolve))
  }
}
