import { ApplicationFailure, Context } from '@temporalio/activity'
import { WorkflowFailedError } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { Listing } from '../../src/syncs/listing/listing-try.ts'
import type { RunSettings } from '../../src/syncs/start.ts'
import type { SyncProgress } from '../../src/syncs/sync-jobs.ts'
import { syncProgress } from '../../src/workflows/messages.ts'
import { ScriptedSync } from './scripted-sync.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, openStage, seen, startSync } from './stage.ts'

/** What to do about it. */
const NEXT = ' The next run starts over; `integrations show-sync-run 70` has the log.'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

const listed: Listing = { kind: 'listed', listed: 1, duplicatesDropped: 0 }
const later = (retryAfterSeconds: number, isBookmarked: boolean): Listing => ({
  kind: 'deferred',
  retryAfterSeconds,
  isBookmarked,
})

interface Played {
  readonly sync: ScriptedSync
  /** `attempt` of each call, and when it came: milliseconds of the server's time. */
  readonly calls: { readonly attempt: number; readonly at: number }[]
  /** What the run ended with: its outcome, or the failure's message. */
  readonly end: unknown
}

interface PlayOptions {
  readonly settings?: Partial<RunSettings>
  /** While the server's time stands still: nobody waits for the result yet. */
  during?(scene: Scene): Promise<void>
  after?(scene: Scene, firstRunId: string): Promise<void>
}

/** Plays a run whose listing answers by the number of the call, from 1. */
async function play(
  answer: (call: number, scene: Scene) => Promise<Listing> | Listing,
  { settings = {}, during, after }: PlayOptions = {},
): Promise<Played> {
  const sync = new ScriptedSync(1)
  const calls: Played['calls'] = []
  const replaced: Partial<Activities> = {
    openSyncRun: async () => ({ kind: 'open', syncLogId: 70, settings: { ...sync.settings(), ...settings } }),
    async listSyncItems({ attempt }) {
      const scene = sync.scene as Scene
      // Noted at once: a call with a short limit may be over before the server has said what time it is.
      const call = { attempt, at: Number.NaN }
      const number = calls.push(call)
      call.at = await scene.now()
      return answer(number, scene)
    },
  }
  return stage.play(sync.activities(replaced), async (scene) => {
    sync.scene = scene
    const handle = await startSync(scene)
    await during?.(scene)
    const end = await handle.result().catch((error: unknown) => {
      if (!(error instanceof WorkflowFailedError)) throw error
      return error.cause?.message
    })
    await after?.(scene, handle.firstExecutionRunId)
    return { sync, calls, end }
  })
}

const gapsOf = ({ calls }: Played): number[] =>
  calls.slice(1).map(({ at }, n) => (at - (calls[n]?.at as number)) / 1_000)
const attemptsOf = ({ calls }: Played): number[] => calls.map(({ attempt }) => attempt)
const FINALISED = { kind: 'finalised', succeeded: 1 }

describe('a listing’s own faults', () => {
  it('end it after three, 10 s and 30 s apart', async () => {
    const played = await play(() => {
      throw new Error('the second page is down')
    })
    expect(attemptsOf(played)).toEqual([1, 2, 3])
    expect(played.end).toBe(`The listing did not end: the second page is down.${NEXT}`)
    expect(played.sync.failure).toBe('the second page is down')
    const [first, second] = gapsOf(played)
    expect(first).toBeGreaterThanOrEqual(10)
    expect(first).toBeLessThan(30)
    expect(second).toBeGreaterThanOrEqual(30)
    expect(second).toBeLessThan(60)
    expect(played.sync.calls).toEqual(['fail'])
  })

  it('come no sooner than a try asks for', async () => {
    const played = await play((call) => {
      if (call > 1) return listed
      const details = [{ tookMs: 0, minimumWaitSeconds: 55 }]
      throw ApplicationFailure.create({ type: 'circuit_open', message: 'the circuit is open', details })
    })
    expect(played.end).toMatchObject(FINALISED)
    const [gap] = gapsOf(played)
    expect(gap).toBeGreaterThanOrEqual(55)
    expect(gap).toBeLessThan(85)
  })

  it('are forgotten once a later call lists the rest', async () => {
    const played = await play((call) => {
      if (call < 3) throw new Error('not now')
      return listed
    })
    expect(played.end).toMatchObject(FINALISED)
  })

  it('are told by the query `progress`: the class, when, and when it is tried again, until the listing is complete', async () => {
    const told: SyncProgress['listingFailure'][] = []
    const look = async (scene: Scene) => {
      told.push((await handleOf(scene).query(syncProgress)).listingFailure)
    }
    const played = await play(
      async (call, scene) => {
        await look(scene)
        if (call > 1) return listed
        throw ApplicationFailure.create({ type: 'HttpError', message: `HttpError: 502 ${'x'.repeat(500)}` })
      },
      {
        during: async (scene) => {
          told.push((await seen(scene, ({ listingFailure }) => listingFailure !== null)).listingFailure)
        },
        after: look,
      },
    )
    expect(played.end).toMatchObject(FINALISED)
    const [before, waiting, again, after] = told
    expect([before, after]).toEqual([null, null])
    expect(waiting).toEqual({
      type: 'HttpError',
      error: `HttpError: 502 ${'x'.repeat(285)}`,
      attempt: 1,
      failedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      nextAttemptAt: expect.any(String),
    })
    expect(Date.parse(waiting?.nextAttemptAt ?? '') - Date.parse(waiting?.failedAt ?? '')).toBe(10_000)
    // Under way again.
    expect(again).toEqual({ ...waiting, nextAttemptAt: null })
  })

  it('end it at once when another call can’t change them', async () => {
    const played = await play(() => {
      throw ApplicationFailure.nonRetryable('the token was refused', 'client')
    })
    expect(attemptsOf(played)).toEqual([1])
    expect(played.end).toBe(`The listing did not end: the token was refused.${NEXT}`)
  })

  it('count a call that takes longer than sync.job_timeout: it is ended, and after three the run has failed', async () => {
    const played = await play(() => Context.current().cancelled, { settings: { listingTimeoutSeconds: 1 } })
    expect(attemptsOf(played)).toEqual([1, 2, 3])
    expect(played.sync.failure).toBe('it took longer than sync.job_timeout (1 s)')
    expect(played.sync.calls).toEqual(['fail'])
  })
})

describe('lost workers', () => {
  const lost = () => {
    throw ApplicationFailure.create({ type: 'WorkerShutdown', message: 'Worker is shutting down' })
  }

  it('count apart from faults: four of them and two faults do not end a listing', async () => {
    const played = await play((call) => {
      if (call > 6) return listed
      if (call % 3 === 0) throw new Error('not now')
      return lost()
    })
    expect(played.end).toMatchObject(FINALISED)
    expect(attemptsOf(played)).toEqual([1, 2, 3, 4, 5, 6, 7])
  })

  it('end it after five', async () => {
    const played = await play(lost)
    expect(attemptsOf(played)).toEqual([1, 2, 3, 4, 5])
    expect(played.end).toBe(`The listing did not end: its worker was lost 5 times.${NEXT}`)
  })

  it('are known by their missing signs of life: the next call comes at once', async () => {
    const played = await play(async (call) => {
      if (call > 1) return listed
      // The server skips no time while a call runs: all of the silence but its last second is slept through.
      await stage.env.sleep('19 seconds')
      return Context.current().cancelled
    })
    expect(played.end).toMatchObject(FINALISED)
    expect(attemptsOf(played)).toEqual([1, 2])
    expect(gapsOf(played)[0]).toBeGreaterThanOrEqual(20)
    expect(gapsOf(played)[0]).toBeLessThan(30)
  })
})

describe('a provider at its limit', () => {
  it('puts the listing off as often as it likes while each call sets a bookmark, outside sync.lock_ttl', async () => {
    const played = await play((call) => (call <= 8 ? later(900, true) : listed))
    expect(played.end).toMatchObject(FINALISED)
    expect(attemptsOf(played)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
    for (const gap of gapsOf(played)) expect(gap).toBeGreaterThanOrEqual(900)
  })

  it('puts it off three times in a row without a new bookmark, not four times', async () => {
    expect((await play((call) => (call <= 3 ? later(60, false) : listed))).end).toMatchObject(FINALISED)
    const played = await play(() => later(60, false))
    expect(attemptsOf(played)).toEqual([1, 2, 3, 4])
    expect(played.end).toContain('4 times in a row without a new bookmark')
  })

  it('starts that count anew with a bookmark', async () => {
    const played = await play((call) => (call <= 7 ? later(60, call === 4) : listed))
    expect(played.end).toMatchObject(FINALISED)
  })

  it('costs none of the three faults', async () => {
    const played = await play((call) => {
      if (call === 2 || call === 4) throw new Error('not now')
      return call < 6 ? later(60, true) : listed
    })
    expect(played.end).toMatchObject(FINALISED)
  })

  it('is shown by the query `progress`', async () => {
    let seen: SyncProgress | undefined
    let metAt = Number.NaN
    const played = await play((call) => (call === 1 ? later(3_600, true) : listed), {
      async during(scene) {
        do seen = await handleOf(scene).query(syncProgress)
        while (seen.intakeFrom === null)
        metAt = await scene.now()
      },
      async after(scene) {
        expect(await handleOf(scene).query(syncProgress)).toMatchObject({ phase: 'done', intakeFrom: null })
      },
    })
    expect(played.end).toMatchObject(FINALISED)
    expect(seen).toMatchObject({ phase: 'listing', listed: null, isPaused: false })
    expect((Date.parse(seen?.intakeFrom ?? '') - metAt) / 1_000).toBeCloseTo(3_600, -2)
  })

  it('may put it off for so long that the history is continued: nothing is counted anew', async () => {
    const deferrals = 300
    const played = await play((call) => (call <= deferrals ? later(60, call % 4 === 0) : listed), {
      async after(scene, firstRunId) {
        const first = handleOf(scene, firstRunId)
        expect(await countEvents(first, 'workflowExecutionContinuedAsNewEventAttributes')).toBe(1)
        expect(await countEvents(first)).toBeLessThan(2_100)
      },
    })
    expect(played.end).toMatchObject(FINALISED)
    expect(attemptsOf(played)).toEqual(Array.from({ length: deferrals + 1 }, (_, n) => n + 1))
    expect(played.sync.calls).toEqual(['pending', 'finalise', 'announce'])
  })
})

describe('sync.lock_ttl', () => {
  it('bounds all calls and the waits between them', async () => {
    const played = await play(
      () => {
        throw new Error('not now')
      },
      { settings: { listingTotalSeconds: 25 } },
    )
    expect(attemptsOf(played)).toEqual([1, 2])
    expect(played.end).toBe(
      `The listing did not end: not now; sync.lock_ttl (25 s) leaves no time for another try.${NEXT}`,
    )
  })

  it('ends the listing at once where a try must wait for longer than is left, with what it failed of', async () => {
    const played = await play(
      () => {
        const details = [{ tookMs: 0, minimumWaitSeconds: 55 }]
        throw ApplicationFailure.create({ type: 'circuit_open', message: 'the circuit is open', details })
      },
      { settings: { listingTotalSeconds: 50 } },
    )
    expect(attemptsOf(played)).toEqual([1])
    expect(played.end).toContain(
      'The listing did not end: the circuit is open; sync.lock_ttl (50 s) leaves no time for another try.',
    )
    expect(played.end).toContain('`integrations circuit 7 status` shows it')
  })

  it('does not count the time that the provider puts it off', async () => {
    const played = await play(
      (call) => {
        if (call === 2) throw new Error('not now')
        return call < 5 ? later(60, true) : listed
      },
      { settings: { listingTotalSeconds: 25 } },
    )
    expect(played.end).toMatchObject(FINALISED)
  })

  it.each<[string, number, () => Listing]>([
    ['was put off', 2, () => ({ ...later(60, true), tookMs: 10 })],
    [
      'failed',
      1,
      () => {
        throw ApplicationFailure.create({ message: 'not now', details: [{ tookMs: 10 }] })
      },
    ],
    [
      'failed before it began',
      1,
      () => {
        throw ApplicationFailure.create({ message: 'no Postgres' })
      },
    ],
  ])(
    'does not count a call’s wait for a worker: of one that %s only what it says that it took',
    async (_, times, end) => {
      const played = await play(
        async (call) => {
          if (call > times) return listed
          // What the call does not say it took, it has waited.
          await stage.env.sleep('12 seconds')
          return end()
        },
        { settings: { listingTotalSeconds: 15 } },
      )
      expect(played.end).toMatchObject(FINALISED)
    },
  )

  it('ends a call that would go beyond it', async () => {
    const played = await play(
      async () => {
        // The server skips no time while a call runs: all but the last second is slept through.
        await stage.env.sleep('14 seconds')
        return Context.current().cancelled
      },
      { settings: { listingTimeoutSeconds: 600, listingTotalSeconds: 15 } },
    )
    expect(attemptsOf(played)).toEqual([1])
    expect(played.end).toContain('The listing did not end: it took longer than sync.lock_ttl (15 s)')
  })
})

describe('a run that has ended its listing', () => {
  it('has one activity for each call', async () => {
    const played = await play((call) => (call === 1 ? later(60, true) : listed), {
      after: async (scene) => {
        // Opening, two calls, one batch, finalising.
        expect(await countEvents(handleOf(scene), 'activityTaskScheduledEventAttributes')).toBe(5)
      },
    })
    expect(played.calls).toHaveLength(2)
  })
})
