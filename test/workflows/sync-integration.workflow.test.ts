import { ApplicationFailure } from '@temporalio/activity'
import { WorkflowFailedError } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { Finalisation } from '../../src/syncs/finalisation.ts'
import type { SyncOutcome } from '../../src/syncs/sync-jobs.ts'
import { syncProgress } from '../../src/workflows/messages.ts'
import { ScriptedSync } from './scripted-sync.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, mostActivitiesAtOnce, openStage, startSync } from './stage.ts'

const BATCH = 200
const MAX_WAITING = 1_000

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

/** Plays a run to its end. */
function run(sync: ScriptedSync, replaced?: Partial<Activities>): Promise<SyncOutcome> {
  return withRun(sync, (handle) => handle.result(), replaced)
}

function withRun<Result>(
  sync: ScriptedSync,
  during: (handle: Awaited<ReturnType<typeof startSync>>, scene: Scene) => Promise<Result>,
  replaced?: Partial<Activities>,
): Promise<Result> {
  return stage.play(sync.activities(replaced), async (scene) => {
    sync.scene = scene
    return during(await startSync(scene), scene)
  })
}

describe('the order of a run', () => {
  it('opens, lists, processes, finalises and announces, with four activities and five workflow tasks for a small run', async () => {
    const sync = new ScriptedSync(BATCH - 1)
    await withRun(sync, async (handle) => {
      expect(await handle.result()).toEqual({
        kind: 'finalised',
        status: 'success',
        succeeded: BATCH - 1,
        failed: 0,
        skipped: 0,
      })
      // Opening, listing, the batch, and finalising, which announces the run, too.
      expect(await countEvents(handle, 'activityTaskScheduledEventAttributes')).toBe(4)
      expect(await countEvents(handle, 'workflowTaskCompletedEventAttributes')).toBe(5)
      const batch = sync.batches[0]?.batch
      expect(batch).toEqual({
        syncLogId: 70,
        take: { kind: 'pending', limit: BATCH },
        claim: `${handle.firstExecutionRunId}:1`,
      })
    })
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'finalise', 'announce'])
  })

  it('tells listeners in an activity of its own: nobody knows how long they take', async () => {
    const sync = new ScriptedSync(1)
    sync.isListenedTo = true
    await withRun(sync, async (handle) => {
      expect(await handle.result()).toMatchObject({ kind: 'finalised' })
      expect(await countEvents(handle, 'activityTaskScheduledEventAttributes')).toBe(5)
    })
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'finalise', 'announce'])
  })

  it('processes nothing when the listing is empty, and still finalises and announces', async () => {
    const sync = new ScriptedSync(0)
    await run(sync)
    expect(sync.calls).toEqual(['open', 'list', 'finalise', 'announce'])
  })

  it('ends silently when there is nothing to do', async () => {
    const sync = new ScriptedSync(5)
    const openSyncRun = async () => ({ kind: 'nothing to do' as const, reason: 'the integration is switched off' })
    expect(await run(sync, { openSyncRun })).toEqual({
      kind: 'not this time',
      reason: 'the integration is switched off',
    })
    expect(sync.calls).toEqual([])
  })

  it('goes on with a run whose workflow is gone, once its last claims are old enough: nothing is listed again', async () => {
    const sync = new ScriptedSync(2 * BATCH)
    let [openedAt, takenAt] = [Number.NaN, Number.NaN]
    sync.pending = BATCH
    await withRun(
      sync,
      async (handle) => {
        // The one that waits is taken up by its id.
        expect(await handle.result()).toMatchObject({ kind: 'finalised', succeeded: BATCH + 1 })
        expect(await handle.query(syncProgress)).toMatchObject({
          syncLogId: 69,
          listed: 5 * BATCH,
          unchanged: 3 * BATCH,
          succeeded: 2 * BATCH,
        })
      },
      {
        async openSyncRun() {
          openedAt = await (sync.scene as Scene).now()
          return { kind: 'adopted', syncLogId: 69, settings: sync.settings(), waitSeconds: 60 }
        },
        async takeOverSyncRun() {
          takenAt = await (sync.scene as Scene).now()
          sync.waiting.add(5)
          const waiting = [{ id: 5, seconds: 600 }]
          const counts = { listed: 5 * BATCH, unchanged: 3 * BATCH, succeeded: BATCH - 1, failed: 0, pending: BATCH }
          return { ...counts, waiting }
        },
      },
    )
    expect(takenAt - openedAt).toBeGreaterThanOrEqual(60_000)
    expect((sync.attemptsOf(5)[0]?.at as number) - takenAt).toBeGreaterThanOrEqual(600_000)
    expect(sync.calls).toEqual(['pending', 'due', 'finalise', 'announce'])
  })

  it('announces the runs whose abandoned items were failed, and ends', async () => {
    const sync = new ScriptedSync(1)
    const announced: number[] = []
    const end = await run(sync, {
      openSyncRun: async () => ({ kind: 'reclaimed', syncLogIds: [61, 64] }),
      announceSyncRun: async ({ syncLogId }) => void announced.push(syncLogId),
    })
    expect(end).toMatchObject({ kind: 'not this time', reason: expect.stringContaining('abandoned') })
    expect(announced).toEqual([61, 64])
    expect(sync.calls).toEqual([])
  })

  it('asks after a full listing, and only then, what is gone at the provider', async () => {
    const full = new ScriptedSync(1)
    full.fullListing = true
    await run(full)
    expect(full.calls).toEqual(['open', 'list', 'pending', 'finalise', 'announce', 'missing'])
    const partial = new ScriptedSync(1)
    await run(partial)
    expect(partial.calls).not.toContain('missing')
  })

  it('is finalised although the provider can’t be told what is gone', async () => {
    const sync = new ScriptedSync(1)
    sync.fullListing = true
    let tries = 0
    const handleMissingItems = async () => {
      tries += 1
      throw new Error('502')
    }
    expect(await run(sync, { handleMissingItems })).toMatchObject({ kind: 'finalised', status: 'success' })
    expect(tries).toBe(3)
  })

  it('announces nothing when somebody else has finalised the run', async () => {
    const sync = new ScriptedSync(1)
    const finaliseSyncRun = async () => ({ kind: 'not this time' as const, reason: 'the run is gone' })
    expect(await run(sync, { finaliseSyncRun })).toMatchObject({ kind: 'not this time' })
    expect(sync.calls).toEqual(['open', 'list', 'pending'])
  })

  it('runs its batches on the queue of the settings', async () => {
    const sync = new ScriptedSync(1)
    await withRun(sync, async (handle, scene) => {
      await handle.result()
      const { events } = await handle.fetchHistory()
      const queues = (events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes ?? [])
      expect(queues.map((task) => [task.activityType?.name, task.taskQueue?.name])).toEqual([
        ['openSyncRun', scene.taskQueue],
        ['listSyncItems', scene.taskQueue],
        ['processSyncItems', scene.taskQueue],
        ['finaliseSyncRun', scene.taskQueue],
      ])
    })

    const elsewhere = new ScriptedSync(1)
    await stage.play(elsewhere.activities(), async (items) => {
      elsewhere.itemTaskQueue = items.taskQueue
      // The run's own worker knows no batch: only the queue of the settings can serve it.
      const { processSyncItems: _, ...others } = elsewhere.activities()
      await stage.play(others, async (scene) => {
        elsewhere.scene = scene
        expect(await (await startSync(scene)).result()).toMatchObject({ succeeded: 1 })
      })
    })
  })

  it('opens four lanes for a large run, and one for a small', async () => {
    let reachFour = (): void => {}
    const four = new Promise<void>((resolve) => {
      reachFour = resolve
    })
    const large: ScriptedSync = new ScriptedSync(9 * BATCH + 1, {
      during: () => {
        if (large.running === 4) reachFour()
        return large.batches.length > 1 ? four : undefined
      },
    })
    await withRun(large, async (handle) => {
      expect(await handle.result()).toMatchObject({ succeeded: 9 * BATCH + 1 })
      expect(await mostActivitiesAtOnce(handle)).toBe(4)
    })
    expect(large.mostRunning).toBe(4)

    const small = new ScriptedSync(BATCH - 1)
    await withRun(small, async (handle) => {
      await handle.result()
      expect(await mostActivitiesAtOnce(handle)).toBe(1)
    })

    const claims = large.batches.map(({ batch }) => batch.claim)
    expect(new Set(claims).size).toBe(claims.length)
  })

  it('begins each batch after what was claimed, until some of it is pending again', async () => {
    const sync = new ScriptedSync(16 * BATCH)
    const lanes = 4
    const givenBack = 8
    let results = 0
    await withRun(sync, async (handle) => expect(await handle.result()).toMatchObject({ kind: 'finalised' }), {
      async processSyncItems(batch) {
        const result = await sync.processSyncItems(batch)
        results += 1
        if (results !== givenBack) return result
        // As one that hands some of its rows back.
        const { claimedUpTo: _, ...others } = result
        return others
      },
    })
    const begins = sync.batches.map(({ batch }) => (batch.take as { after?: number }).after)
    const none = (count: number) => Array.from({ length: count }, () => undefined)
    expect(begins.slice(0, lanes)).toEqual(none(lanes))
    // Results that come together are noted together. A batch that would pass over an item fails (ScriptedSync).
    for (const after of begins.slice(lanes, givenBack)) expect(after).toBeGreaterThanOrEqual(BATCH)
    const last = begins.slice(givenBack + lanes)
    expect(last.length).toBeGreaterThanOrEqual(lanes)
    expect(last).toEqual(none(last.length))
  })

  it('says in the query `progress` how far it is', async () => {
    const seen: unknown[] = []
    const look = async () => {
      seen.push(await handleOf(sync.scene as Scene).query(syncProgress))
    }
    const sync = new ScriptedSync(2, {
      attempt: (id, attempt) => (id === 1 || attempt > 1 ? 'succeeds' : { retryAfter: 3_600 }),
      during: look,
    })
    // In the workflow's own task no query is answered.
    sync.isListenedTo = true
    const listSyncItems = async () => {
      await look()
      return { kind: 'listed', listed: 1_000, unchanged: 998, duplicatesDropped: 0 } as const
    }
    const announceSyncRun = look
    await withRun(
      sync,
      async (handle) => {
        await handle.result()
        await look()
      },
      { listSyncItems, announceSyncRun },
    )
    const startedAt = expect.stringMatching(/^\d{4}-.*Z$/)
    const base = {
      ...{ syncLogId: 70, failed: 0, startedAt, isPaused: false },
      ...{ intakeFrom: null, nextAttemptAt: null, lastFailure: null, listingFailure: null },
    }
    const untold = { perSecond: null, secondsLeft: null }
    // No item runs for an unchanged record: two are left to do.
    const listed = { listed: 1_000, unchanged: 998 }
    // It has three digits: 2 / 3,600 is rounded up.
    const twoInAnHour = expect.toSatisfy((rate: number) => rate <= 0.000556 && rate > 2 / 3_900)
    expect(seen).toEqual([
      { ...base, ...untold, phase: 'listing', listed: null, unchanged: 0, succeeded: 0, waiting: 0 },
      { ...base, ...untold, ...listed, phase: 'processing', succeeded: 0, waiting: 0 },
      // The rate is that of the last batch that ended: the first item took no time, the second one an hour.
      {
        ...base,
        ...listed,
        phase: 'processing',
        succeeded: 1,
        waiting: 0,
        perSecond: expect.toSatisfy((rate: number) => rate > 1 / 300),
        secondsLeft: expect.toSatisfy((seconds: number) => seconds < 300),
      },
      {
        ...base,
        ...listed,
        phase: 'finalising',
        succeeded: 2,
        waiting: 0,
        perSecond: twoInAnHour,
        secondsLeft: 0,
      },
      {
        ...base,
        ...listed,
        phase: 'done',
        succeeded: 2,
        waiting: 0,
        perSecond: twoInAnHour,
        secondsLeft: null,
      },
    ])
  })
})

describe('a listing that fails', () => {
  it('is given up with its reason, and fails the run', async () => {
    const sync = new ScriptedSync(5)
    const listSyncItems = async () => {
      throw ApplicationFailure.nonRetryable('the token was refused', 'client')
    }
    await withRun(
      sync,
      async (handle) => {
        const error = await handle.result().catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(WorkflowFailedError)
        expect((error as WorkflowFailedError).cause).toMatchObject({
          type: 'ListingFailed',
          message:
            'The listing did not end: the token was refused. The next run starts over; `integrations show-sync-run 70` has the log.',
        })
      },
      { listSyncItems },
    )
    expect(sync.calls).toEqual(['open', 'fail'])
    expect(sync.failure).toBe('the token was refused')
  })

  it('is tried again after 10 s and 30 s, and then goes on', async () => {
    const sync = new ScriptedSync(1)
    const tries: number[] = []
    const listSyncItems = async () => {
      tries.push(await (sync.scene as Scene).now())
      if (tries.length < 3) throw new Error('not now')
      return sync.listSyncItems()
    }
    expect(await run(sync, { listSyncItems })).toMatchObject({ kind: 'finalised', succeeded: 1 })
    expect(tries).toHaveLength(3)
    const [first, second] = [tries[1] as number, tries[2] as number].map((at, n) => (at - (tries[n] as number)) / 1_000)
    expect(first).toBeGreaterThanOrEqual(10)
    expect(first).toBeLessThan(30)
    expect(second).toBeGreaterThanOrEqual(30)
    expect(second).toBeLessThan(60)
  })
})

describe('items that run again', () => {
  it('waits for minutes and hours on durable timers, and holds up no other item', async () => {
    const delays = [120, 3 * 3_600]
    const sync = new ScriptedSync(3, {
      attempt: (id, attempt) => {
        const delay = id === 2 ? delays[attempt - 1] : undefined
        return delay === undefined ? 'succeeds' : { retryAfter: delay }
      },
    })
    await withRun(sync, async (handle) => {
      expect(await handle.result()).toMatchObject({ status: 'success', succeeded: 3 })
      expect(await countEvents(handle, 'timerStartedEventAttributes')).toBe(2)
    })
    const gaps = sync.gapsOf(2)
    expect(gaps).toHaveLength(2)
    for (const [n, delay] of delays.entries()) {
      expect(gaps[n]).toBeGreaterThanOrEqual(delay)
      expect(gaps[n]).toBeLessThan(delay + 60)
    }
    expect(sync.attemptsOf(1)).toHaveLength(1)
    expect(sync.attemptsOf(3)).toHaveLength(1)
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'due', 'due', 'finalise', 'announce'])
  })

  it('takes in what others wait for, however many of these are put off', async () => {
    const total = 1_600
    const sync: ScriptedSync = new ScriptedSync(total, {
      attempt: (id) => (id === total || sync.ended.has(total) ? 'succeeds' : { putOffFor: 15 }),
    })
    expect(await run(sync)).toMatchObject({ status: 'success', succeeded: total })
  })

  it('counts an item that failed for good, and ends as partial', async () => {
    const sync = new ScriptedSync(2, { attempt: (id) => (id === 1 ? 'fails' : 'succeeds') })
    expect(await run(sync)).toMatchObject({ status: 'partial', succeeded: 1, failed: 1 })
  })

  it('takes nothing new in while its list of waiting items is full', async () => {
    const total = 3_000
    const sync = new ScriptedSync(total, {
      attempt: (_id, attempt) => (attempt > 1 ? 'succeeds' : { retryAfter: 3_600 }),
    })
    expect(await run(sync)).toMatchObject({ succeeded: total })
    // A lane that looked just before the list was full adds its batch.
    expect(sync.mostWaiting).toBeLessThanOrEqual(MAX_WAITING + 3 * BATCH)
    const firstAt = sync.batches[0]?.at as number
    const early = sync.batches.filter(({ batch, at }) => batch.take.kind === 'pending' && at < firstAt + 3_600_000)
    expect(early.length).toBeGreaterThanOrEqual(MAX_WAITING / BATCH)
    expect(early.length).toBeLessThanOrEqual(MAX_WAITING / BATCH + 3)
    for (const id of [1, total]) expect(sync.gapsOf(id)[0]).toBeGreaterThanOrEqual(3_600)
  })

  it('takes nothing new in while the provider is at its limit; what waits for a retry runs', async () => {
    const sync = new ScriptedSync(5 * BATCH, {
      attempt: (id, attempt) => {
        if (attempt > 1) return 'succeeds'
        // One in each of the first four batches: whichever ends first stops the intake.
        if (id % BATCH === 1 && id < 4 * BATCH) return { deferredBy: 7_200 }
        return id === 2 ? { retryAfter: 60 } : 'succeeds'
      },
    })
    expect(await run(sync)).toMatchObject({ succeeded: 5 * BATCH })
    const limitedAt = sync.batches[0]?.at as number
    // The four lanes begin at once.
    const later = sync.batches.slice(4).filter(({ batch }) => batch.take.kind === 'pending')
    expect(later.length).toBeGreaterThan(0)
    for (const { at } of later) expect(at - limitedAt).toBeGreaterThanOrEqual(7_200_000)
    expect(sync.gapsOf(1)[0]).toBeGreaterThanOrEqual(7_200)
    expect(sync.gapsOf(2)[0]).toBeLessThan(120)
  })
})

describe('a finalisation that finds rows unfinished', () => {
  it('takes up the rows it names: pending ones and waiting ones, these after their time', async () => {
    const sync = new ScriptedSync(3)
    const finaliseSyncRun = async (): Promise<Finalisation> => {
      const isFirst = !sync.calls.includes('finalise')
      if (isFirst) {
        // A lost batch left a new row pending, and put one to wait without being able to say so.
        sync.ended.delete(2)
        sync.waiting.add(2)
        sync.pending = 1
        sync.ended.delete(3)
      }
      const result = await sync.finaliseSyncRun()
      return result.kind === 'unfinished' ? { ...result, waiting: [{ id: 2, seconds: 600 }] } : result
    }
    expect(await run(sync, { finaliseSyncRun })).toMatchObject({ kind: 'finalised', succeeded: 3 })
    expect(sync.calls).toEqual(['open', 'list', 'pending', 'finalise', 'pending', 'due', 'finalise', 'announce'])
    expect(sync.gapsOf(2)[0]).toBeGreaterThanOrEqual(600)
    expect(sync.gapsOf(3)[0]).toBeLessThan(600)
  })

  it('looks again every 30 s while another workflow holds a row, in new runs when that takes long', async () => {
    const looks = 402
    const sync = new ScriptedSync(1)
    const lookedAt: number[] = []
    const finaliseSyncRun = async (): Promise<Finalisation> => {
      lookedAt.push(await (sync.scene as Scene).now())
      const looked = sync.calls.filter((call) => call === 'finalise').length
      const result = await sync.finaliseSyncRun({ announces: looked >= looks })
      return looked < looks ? { kind: 'unfinished', pending: 0, waiting: [] } : result
    }
    await withRun(
      sync,
      async (handle, scene) => {
        expect(await handle.result()).toMatchObject({ kind: 'finalised', succeeded: 1 })
        expect(lookedAt).toHaveLength(looks + 1)
        for (const [n, at] of lookedAt.slice(1).entries())
          expect(at - (lookedAt[n] as number)).toBeGreaterThanOrEqual(30_000)
        const first = handleOf(scene, handle.firstExecutionRunId)
        expect(await countEvents(first, 'workflowExecutionContinuedAsNewEventAttributes')).toBe(1)
        expect(await countEvents(first)).toBeLessThan(5_000)
      },
      { finaliseSyncRun },
    )
    expect(sync.calls.filter((call) => call === 'announce')).toHaveLength(1)
  })
})

describe('a reducer that throws', () => {
  it('is asked ten times, 10, 30, 120 and then 300 s apart; then the run is given up with its reason', async () => {
    const sync = new ScriptedSync(1)
    const askedAt: number[] = []
    const finaliseSyncRun = async (): Promise<Finalisation> => {
      askedAt.push(await (sync.scene as Scene).now())
      return { kind: 'reducer threw', reason: 'Error: no order' }
    }
    await withRun(
      sync,
      async (handle) => {
        await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'ReducerThrew' } })
      },
      { finaliseSyncRun },
    )
    const steps = [10, 30, 120, 300, 600]
    // Each gap by the longest step that fits in: a machine that stands still lengthens it.
    const gaps = askedAt.slice(1).map((at, n) => steps.findLast((step) => at - (askedAt[n] as number) >= step * 1_000))
    expect(gaps).toEqual([10, 30, 120, 300, 300, 300, 300, 300, 300])
    expect(sync.failure).toBe('reduceCheckpoints() threw: Error: no order')
    expect(sync.calls).not.toContain('announce')
  })

  it('leaves the command for its own stream: without the stream it would be refused', async () => {
    const sync = new ScriptedSync(1)
    const finaliseSyncRun = async (): Promise<Finalisation> => ({ kind: 'reducer threw', reason: 'Error: no order' })
    await stage.play(sync.activities({ finaliseSyncRun }), async (scene) => {
      sync.scene = scene
      const handle = await startSync(scene, { integrationId: 7, stream: 'deals' })
      const message = expect.stringContaining('`integrations advance-cursor 7 --stream deals`')
      await expect(handle.result()).rejects.toMatchObject({ cause: { message } })
    })
  })
})

describe('a long run', () => {
  it('of 100,000 items goes on in new runs of few events: no item twice, and waiting ones keep their time', async () => {
    const total = 100_000
    const hours = 5
    const sync = new ScriptedSync(total, {
      attempt: (id, attempt) => (attempt === 1 && id % 25_000 === 1 ? { retryAfter: hours * 3_600 } : 'succeeds'),
    })
    await withRun(sync, async (handle, scene) => {
      expect(await handle.result()).toMatchObject({ succeeded: total })
      expect(await handle.query(syncProgress)).toMatchObject({ listed: total, succeeded: total, waiting: 0 })
      const lives = await livesOf(scene, handle.firstExecutionRunId)
      expect(lives.length).toBeGreaterThan(1)
      for (const { events } of lives) expect(events).toBeLessThan(2_200)
      const actions = lives.reduce((sum, life) => sum + life.actions, 0)
      expect(actions / (total / 1_000)).toBeLessThanOrEqual(40)

      const claims = sync.batches.map(({ batch }) => batch.claim)
      expect(new Set(claims).size).toBe(claims.length)
      expect(new Set(claims.map((claim) => claim.split(':')[0]))).toEqual(new Set(lives.map((life) => life.runId)))
    })
    expect(sync.calls.filter((call) => call !== 'pending' && call !== 'due')).toEqual([
      'open',
      'list',
      'finalise',
      'announce',
    ])
    // As many batches as it takes, and one for those that waited.
    expect(sync.batches.length).toBeLessThanOrEqual(total / BATCH + 4)
    for (const id of [1, 75_001]) {
      expect(sync.gapsOf(id)[0]).toBeGreaterThanOrEqual(hours * 3_600)
      expect(sync.gapsOf(id)[0]).toBeLessThan(hours * 3_600 + 120)
    }
  })

  it('of 1,000 items costs at most 40 actions', async () => {
    const sync = new ScriptedSync(1_000, {
      attempt: (id, attempt) => (attempt === 1 && id % 50 === 0 ? { retryAfter: 60 } : 'succeeds'),
    })
    await withRun(sync, async (handle, scene) => {
      expect(await handle.result()).toMatchObject({ succeeded: 1_000 })
      const [life] = await livesOf(scene, handle.firstExecutionRunId)
      expect(life?.actions).toBeLessThanOrEqual(40)
    })
  })
})

interface Life {
  readonly runId: string
  readonly events: number
  readonly actions: number
}

/** The runs of one id that went on from each other. */
async function livesOf(scene: Scene, firstRunId: string): Promise<Life[]> {
  const lives: Life[] = []
  let runId: string | null | undefined = firstRunId
  while (runId) {
    const { events } = await handleOf(scene, runId).fetchHistory()
    lives.push({ runId, events: events?.length ?? 0, actions: (events ?? []).filter(isAction).length })
    runId = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
  }
  return lives
}

/** What Temporal Cloud counts: https://docs.temporal.io/cloud/actions. A marker stands for a local activity. */
function isAction(event: object): boolean {
  const kinds = [
    'workflowExecutionStartedEventAttributes',
    'activityTaskScheduledEventAttributes',
    'timerStartedEventAttributes',
    'markerRecordedEventAttributes',
    'workflowExecutionSignaledEventAttributes',
    'workflowExecutionContinuedAsNewEventAttributes',
    'startChildWorkflowExecutionInitiatedEventAttributes',
  ]
  return kinds.some((kind) => (event as Record<string, unknown>)[kind] != null)
}
