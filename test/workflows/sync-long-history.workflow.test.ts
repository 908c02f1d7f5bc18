import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { itemsChanged, pause, resume, syncProgress } from '../../src/workflows/messages.ts'
import { ScriptedSync } from './scripted-sync.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, openStage, seen, startSync } from './stage.ts'

const BATCH = 200

// A server of its own: where activities outlive their workflows its time does not skip any more, and here hours pass.
let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

describe('signals and a long history', () => {
  it('none is lost: pause, limit and waiting items go on in the new run', async () => {
    const total = 6 * BATCH
    const sync = new ScriptedSync(total, {
      attempt: (id, attempt) => {
        if (attempt > 1) return 'succeeds'
        // One in each of the first four batches: whichever ends first stops the intake.
        if (id % BATCH === 1 && id < 4 * BATCH) return { deferredBy: 7_200 }
        return id === 2 ? { retryAfter: 3_600 } : 'succeeds'
      },
    })
    await stage.play(sync.activities(), async (scene) => {
      sync.scene = scene
      const run = await startSync(scene)
      await seen(scene, ({ succeeded }) => succeeded === 4 * BATCH - 5)
      await run.signal(pause)
      const before = await seen(scene, ({ isPaused }) => isPaused)
      await signalUntilNewHistory(scene, run.firstExecutionRunId)
      expect(await handleOf(scene).query(syncProgress)).toEqual(before)
      expect(before).toMatchObject({ isPaused: true, listed: total, waiting: 5, intakeFrom: expect.any(String) })

      await handleOf(scene).signal(resume)
      expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: total })
      expect(await countEvents(handleOf(scene, run.firstExecutionRunId))).toBeLessThan(5_000)
    })
    const limitedAt = sync.attemptsOf(1)[0]?.at as number
    for (const { batch, at } of sync.batches.slice(4))
      if (batch.take.kind === 'pending') expect(at - limitedAt).toBeGreaterThanOrEqual(7_200_000)
    expect(sync.gapsOf(1)[0]).toBeGreaterThanOrEqual(7_200)
    expect(sync.gapsOf(2)[0]).toBeGreaterThanOrEqual(3_600)
    expect(sync.calls.filter((call) => !['pending', 'due'].includes(call))).toEqual([
      'open',
      'list',
      'finalise',
      'announce',
    ])
  })

  it('a pause without a run is held in a new history, too', async () => {
    const sync = new ScriptedSync(1)
    await withHeld(sync, async (scene, firstRunId) => {
      await signalUntilNewHistory(scene, firstRunId)
      expect(await seen(scene, () => true)).toMatchObject({ phase: 'held', isPaused: true })
      await handleOf(scene).signal(resume)
      expect(await handleOf(scene).result()).toMatchObject({ kind: 'not this time' })
    })
    expect(sync.calls).toEqual([])
  })

  function withHeld(sync: ScriptedSync, during: (scene: Scene, firstRunId: string) => Promise<void>): Promise<void> {
    return stage.play(sync.activities(), async (scene) => {
      const held = await scene.client.signalWithStart(WORKFLOW.syncIntegration, {
        workflowId: scene.workflowId,
        taskQueue: scene.taskQueue,
        args: [{ integrationId: 7 }],
        signal: pause,
        signalArgs: [],
      })
      await during(scene, held.signaledRunId)
    })
  }
})

/**
 * Signals lengthen a history, too. While they keep coming the server lets no run end, so they come in bursts, and no more
 * once they alone are over the bound: a slow worker then has the time it needs.
 */
async function signalUntilNewHistory(scene: Scene, firstRunId: string): Promise<void> {
  const deadline = performance.now() + 120_000
  for (let sent = 0; performance.now() < deadline; ) {
    // A query that meets the end of a run is never answered by this server; looking at it from outside is.
    const { runId } = await handleOf(scene).describe()
    if (runId !== firstRunId) return
    if (sent < 2_100) {
      await Promise.all(Array.from({ length: 300 }, () => handleOf(scene).signal(itemsChanged)))
      sent += 300
    }
    await setTimeout(250)
  }
  throw new Error('the run did not go on in a new history')
}
