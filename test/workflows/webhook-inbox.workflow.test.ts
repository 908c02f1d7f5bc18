import { Context } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PumpCall } from '../../src/claims/pump-jobs.ts'
import { arrived, pumpCalls, pumpedQueueState } from '../../src/workflows/messages.ts'
import { occasion } from '../support/integrations.ts'
import { SOON } from '../support/soon.ts'
import { ScriptedPumps } from './scripted-pumps.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, mostActivitiesAtOnce, openStage, wakeInbox } from './stage.ts'

const PROMISED_AFTER_MS = 1_500
const MANY_PUMPS = 100

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

describe('an inbox', () => {
  it('opens one pump for a first signal, and ends with it', async () => {
    const pumps = new ScriptedPumps(3)
    await stage.play(pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      expect(await inbox.result()).toEqual({ pumps: [], ended: 1, processed: 3, failed: 0, nextDueAt: null })
      expect(pumps.claims).toEqual([`pump:${inbox.signaledRunId}:1`])
      // What a worker that stands still can't bring out of order: no work in its own task, and no timer.
      expect(await countEvents(inbox, 'markerRecordedEventAttributes')).toBe(0)
      expect(await countEvents(inbox, 'timerStartedEventAttributes')).toBe(0)
      // Also after many lost workers the next try comes soon.
      const { events } = await handleOf(scene, inbox.signaledRunId).fetchHistory()
      const opened = events?.flatMap(({ activityTaskScheduledEventAttributes: pump }) => pump ?? [])
      expect(opened?.map(({ retryPolicy }) => Number(retryPolicy?.maximumInterval?.seconds))).toEqual([5])
    })
  })

  it('has another pump look for what arrives while the last one ends', async () => {
    let scene: Scene | undefined
    const pumps = new ScriptedPumps(1, async (pump) => {
      if (pump === 1) await wakeInbox(scene as Scene)
      return 'empty'
    })
    await stage.play(pumps, async (played) => {
      scene = played
      const inbox = await wakeInbox(played)
      expect(await inbox.result()).toMatchObject({ ended: 2, processed: 1 })
    })
  })

  it('begins a new life with the next signal', async () => {
    const pumps = new ScriptedPumps(1)
    await stage.play(pumps, async (scene) => {
      const first = await wakeInbox(scene)
      await first.result()
      const second = await wakeInbox(scene)
      expect(second.signaledRunId).not.toBe(first.signaledRunId)
      expect(await second.result()).toMatchObject({ ended: 1, processed: 0 })
    })
  })

  it('says in the query `state` which pumps it has', async () => {
    const held = new HeldPumps()
    await stage.play(held.pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      await held.untilRunning(1)
      expect(await inbox.query(pumpedQueueState)).toEqual({
        pumps: [{ claim: held.pumps.claims[0], startedAt: expect.stringMatching(/^\d{4}-.*Z$/), isLeaving: false }],
        ended: 0,
        processed: 0,
        failed: 0,
        nextDueAt: null,
      })
      held.release()
      await inbox.result()
      expect(await inbox.query(pumpedQueueState)).toMatchObject({ pumps: [], ended: 1 })
    })
  })
})

describe('more pumps than one', () => {
  it('are opened for signals beside a pump that has had 1.5 s to promise, and not before', async () => {
    const held = new HeldPumps()
    await stage.play(held.pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      await expect
        .poll(async () => {
          await handleOf(scene).signal(arrived)
          return held.pumps.running
        }, SOON)
        .toBe(3)
      const { pumps } = await inbox.query(pumpedQueueState)
      const opened = pumps.map(({ startedAt }) => Date.parse(startedAt))
      for (const [index, at] of opened.slice(1, 3).entries())
        expect(at - (opened[index] as number)).toBeGreaterThan(PROMISED_AFTER_MS)
      held.release()
      await inbox.result()
    })
  })

  it('are eight at most where none of them promises anything: they may all only wait for a worker', async () => {
    const held = new HeldPumps()
    await stage.play(held.pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      const signalled = async () => {
        await handleOf(scene).signal(arrived)
        return held.pumps.running
      }
      await expect.poll(signalled, { timeout: 30_000, interval: 100 }).toBe(8)
      const until = performance.now() + 2 * PROMISED_AFTER_MS
      while (performance.now() < until) expect(await signalled()).toBe(8)
      held.release()
      await inbox.result()
    })
  })

  it('are opened when a pump asks for help, four at most', async () => {
    const held = new HeldPumps()
    await stage.play(held.pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      for (const running of [1, 2, 3, 4]) {
        await held.untilRunning(running)
        await call(scene, { claim: held.pumps.claims[0] as string, needs: 'help' })
      }
      expect((await inbox.query(pumpedQueueState)).pumps).toHaveLength(4)
      held.release()
      // The last call found no free place: a fifth pump looks once the four have ended.
      expect(await inbox.result()).toMatchObject({ ended: 5 })
      expect(await mostActivitiesAtOnce(inbox)).toBe(4)
    })
  })

  it('are opened in place of those that leave, which take no place', async () => {
    const held = new HeldPumps()
    await stage.play(held.pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      await held.untilRunning(1)
      await call(scene, { claim: held.pumps.claims[0] as string, needs: 'successor' })
      await held.untilRunning(2)
      const { pumps } = await inbox.query(pumpedQueueState)
      expect(pumps.map(({ isLeaving }) => isLeaving)).toEqual([true, false])
      for (const running of [3, 4, 5]) {
        await call(scene, { claim: held.pumps.claims[1] as string, needs: 'help' })
        await held.untilRunning(running)
      }
      held.release()
      expect(await inbox.result()).toMatchObject({ ended: 5 })
    })
  })

  it('follow one that gave rows back, however it ended: the others may have looked before', async () => {
    const pumps: ScriptedPumps = new ScriptedPumps(0, async (pump) => {
      pumps.handedBack = pump === 1 ? 1 : 0
      return pump === 1 ? 'relieved' : 'empty'
    })
    await stage.play(pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      expect(await inbox.result()).toMatchObject({ ended: 2 })
    })
  })

  it('follow one whose worker stopped, unless a successor came before its end', async () => {
    let scene: Scene | undefined
    const pumps = new ScriptedPumps(0, async (pump, claim) => {
      if (pump === 2) {
        await call(scene as Scene, { claim, needs: 'successor' })
        await expect.poll(() => pumps.claims, SOON).toHaveLength(3)
      }
      return pump <= 2 ? 'stopped' : 'empty'
    })
    await stage.play(pumps, async (played) => {
      scene = played
      expect(await (await wakeInbox(played)).result()).toMatchObject({ ended: 3 })
    })
  })
})

describe('the signal of a pump', () => {
  it('does nothing where a person sends it without an input', async () => {
    const held = new HeldPumps()
    await stage.play(held.pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      await held.untilRunning(1)
      await handleOf(scene).signal(pumpCalls.name)
      await handleOf(scene).signal(pumpCalls.name, null)
      held.release()
      expect(await inbox.result()).toMatchObject({ ended: 1 })
      expect(await countEvents(inbox, 'workflowTaskFailedEventAttributes')).toBe(0)
    })
  })
})

describe('a pump that a stopping worker has declined', () => {
  it('is opened again at once, beside the others, and is not counted', async () => {
    const held = occasion()
    const pumps: ScriptedPumps = new ScriptedPumps(0, async (pump) => {
      if (pump === 1) await held.happened
      return pump === 2 || pump === 3 ? 'declined' : 'empty'
    })
    await stage.play(pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      await expect.poll(() => pumps.running, SOON).toBe(1)
      await call(scene, { claim: pumps.claims[0] as string, needs: 'successor' })
      await expect.poll(() => pumps.claims, SOON).toHaveLength(4)
      expect(new Set(pumps.claims).size).toBe(4)
      held.happen()
      expect(await inbox.result()).toMatchObject({ ended: 2 })
    })
  })
})

describe('the history of an inbox', () => {
  it('goes on in a new run after 100 pumps, once none runs, with its totals', async () => {
    const more = 5
    const pumps = new ScriptedPumps(0, async (pump) => {
      pumps.pending += 1
      return pump < MANY_PUMPS + more ? 'stopped' : 'empty'
    })
    await stage.play(pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      const total = MANY_PUMPS + more
      expect(await inbox.result()).toEqual({ pumps: [], ended: total, processed: total, failed: 0, nextDueAt: null })
      const { events } = await handleOf(scene, inbox.signaledRunId).fetchHistory()
      const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
      // None twice: each run counts its pumps from 1.
      expect(pumps.claims).toEqual([
        ...Array.from({ length: MANY_PUMPS }, (_, index) => `pump:${inbox.signaledRunId}:${index + 1}`),
        ...Array.from({ length: more }, (_, index) => `pump:${next}:${index + 1}`),
      ])
    })
  })
})

describe('the end of an inbox', () => {
  it('waits for its pumps when it is cancelled', async () => {
    const told = occasion()
    const release = occasion()
    const pumps = new ScriptedPumps(1, async () => {
      // A cancellation comes with the answer to a heartbeat.
      const context = Context.current()
      const beat = setInterval(() => context.heartbeat(), 100)
      await context.cancelled.catch(() => {})
      clearInterval(beat)
      told.happen()
      await release.happened
      return 'stopped'
    })
    await stage.play(pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      await expect.poll(() => pumps.running, SOON).toBe(1)
      await inbox.cancel()
      await told.happened
      expect((await inbox.describe()).status.name).toBe('RUNNING')
      release.happen()
      await expect(inbox.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } })
      expect(pumps.claims).toHaveLength(1)
    })
  })

  it('comes with a pump that fails for good: no other is opened, and those that work are waited for', async () => {
    const release = occasion()
    const pumps = new ScriptedPumps(0, async (pump) => {
      if (pump === 2) throw ApplicationFailure.nonRetryable('no such table')
      await release.happened
      return 'stopped'
    })
    await stage.play(pumps, async (scene) => {
      const inbox = await wakeInbox(scene)
      await expect.poll(() => pumps.running, SOON).toBe(1)
      const [claim = ''] = pumps.claims
      await call(scene, { claim, needs: 'help' })
      await expect.poll(async () => (await inbox.query(pumpedQueueState)).pumps, SOON).toHaveLength(1)
      expect(pumps.claims).toHaveLength(2)
      await call(scene, { claim, needs: 'help' })
      expect((await inbox.query(pumpedQueueState)).pumps).toHaveLength(1)
      release.happen()
      await expect(inbox.result()).rejects.toMatchObject({ cause: { cause: { message: 'no such table' } } })
      expect(pumps.claims).toHaveLength(2)
    })
  })
})

/** Pumps that stay until they are released. */
class HeldPumps {
  readonly #released = occasion()
  readonly pumps = new ScriptedPumps(0, async () => {
    await this.#released.happened
    return 'empty'
  })

  untilRunning(pumps: number): Promise<void> {
    return expect.poll(() => this.pumps.running, SOON).toBe(pumps)
  }

  release(): void {
    this.#released.happen()
  }
}

/** As a pump does it. */
function call(scene: Scene, asked: PumpCall): Promise<void> {
  return handleOf(scene).signal(pumpCalls, asked)
}
