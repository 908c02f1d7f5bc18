import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inboxState } from '../../src/workflows/messages.ts'
import { SOON } from '../support/soon.ts'
import { ScriptedWebhooks } from './scripted-webhooks.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, lifetimeMs, mostActivitiesAtOnce, openStage, wakeInbox } from './stage.ts'

const FAST = 20
const BATCH = 200
const IDLE_MS = 5 * 60_000
/** Time goes on by itself meanwhile: it has to be more than a busy machine needs for a signal. */
const MOMENT_MS = 10_000

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

describe('the lanes of an inbox', () => {
  it('takes few rows in the fast lane alone, which is a local activity', async () => {
    const webhooks = new ScriptedWebhooks(FAST - 1)
    await stage.play(webhooks, async (scene) => {
      const inbox = await wakeInbox(scene)
      expect(await inbox.result()).toMatchObject({ processed: FAST - 1, failed: 0, lanes: 0, phase: 'waiting' })
      expect(new Set(webhooks.limits)).toEqual(new Set([FAST]))
      expect(await countEvents(inbox, 'activityTaskScheduledEventAttributes')).toBe(0)
    })
  })

  it('opens a lane of 200 after a full fast batch', async () => {
    const webhooks = new ScriptedWebhooks(FAST + 5)
    await stage.play(webhooks, async (scene) => {
      expect(await (await wakeInbox(scene)).result()).toMatchObject({ processed: FAST + 5 })
    })
    expect(webhooks.limits.slice(0, 2)).toEqual([FAST, BATCH])
    expect(webhooks.mostRunning).toBe(1)
  })

  it('opens four lanes and no more while batches come back full', async () => {
    let reachFour = (): void => {}
    const four = new Promise<void>((resolve) => {
      reachFour = resolve
    })
    const webhooks = new ScriptedWebhooks(FAST + 12 * BATCH + 3, (_batch, number) => {
      // The fast batch, one of 200, then two at once; those after them stay until four run at once.
      if (number < 5) return
      if (webhooks.running === 4) reachFour()
      return four
    })
    await stage.play(webhooks, async (scene) => {
      const inbox = await wakeInbox(scene)
      await four
      expect(await inbox.result()).toMatchObject({ processed: FAST + 12 * BATCH + 3, lanes: 0 })
      expect(await mostActivitiesAtOnce(inbox)).toBe(4)
    })
    expect(webhooks.mostRunning).toBe(4)
    expect(webhooks.pending).toBe(0)
  })

  it('says in the query `state` what it is doing', async () => {
    const webhooks = new ScriptedWebhooks(FAST + 5, async (batch, number) => {
      if (number === 2) seen.push(await handleOf(scene as Scene).query(inboxState))
      expect(batch.integrationId).toBe(7)
    })
    const seen: unknown[] = []
    let scene: Scene | undefined
    await stage.play(webhooks, async (played) => {
      scene = played
      const inbox = await wakeInbox(played)
      await inbox.result()
      expect(await inbox.query(inboxState)).toMatchObject({ phase: 'waiting', processed: FAST + 5, lanes: 0 })
    })
    expect(seen).toMatchObject([{ phase: 'batches', lanes: 1, batches: 1, processed: FAST, slowestMs: 3 }])
  })
})

describe('slow handlers', () => {
  it('keeps rows out of the fast lane after a handler of a second, until one is quick again', async () => {
    const webhooks = new ScriptedWebhooks(1)
    webhooks.slowestMs = 1_000
    await stage.play(webhooks, async (scene) => {
      const inbox = await wakeInbox(scene)
      await state(scene, { batches: 1 })
      await deliver(webhooks, scene, 1) // slow again
      await state(scene, { processed: 2, phase: 'waiting' })
      expect(webhooks.limits.filter((limit) => limit === FAST)).toHaveLength(1)
      expect(webhooks.limits.at(-1)).toBe(BATCH)

      await deliver(webhooks, scene, 0) // an empty batch tells nothing of the handlers
      await state(scene, { batches: webhooks.limits.length + 1, phase: 'waiting' })
      webhooks.slowestMs = 999
      await deliver(webhooks, scene, 1)
      await state(scene, { processed: 3, phase: 'waiting' })
      expect(webhooks.limits.filter((limit) => limit === FAST)).toHaveLength(1)

      await deliver(webhooks, scene, 1)
      await state(scene, { processed: 4, phase: 'waiting' })
      expect(webhooks.limits.at(-1)).toBe(FAST)
      expect(await inbox.result()).toMatchObject({ processed: 4 })
    })
  })
})

describe('the end of an inbox', () => {
  it('ends after five idle minutes', async () => {
    const webhooks = new ScriptedWebhooks(0)
    await stage.play(webhooks, async (scene) => {
      const inbox = await wakeInbox(scene)
      await inbox.result()
      const lived = await lifetimeMs(inbox)
      expect(lived).toBeGreaterThanOrEqual(IDLE_MS)
      expect(lived).toBeLessThan(2 * IDLE_MS)
    })
  })

  it('looks once more before it ends when its last claim was not empty', async () => {
    const webhooks = new ScriptedWebhooks(3)
    const claimed: number[] = []
    await stage.play(
      {
        processPendingWebhooks: async (batch) => {
          const result = await webhooks.processPendingWebhooks(batch)
          claimed.push(result.claimed)
          return result
        },
      },
      async (scene) => {
        await (await wakeInbox(scene)).result()
      },
    )
    expect(claimed[0]).toBe(3)
    expect(claimed.at(-1)).toBe(0)
  })

  it('claims again for a row that arrived during a batch, in the fast lane and in a lane of 200', async () => {
    let scene: Scene | undefined
    const webhooks = new ScriptedWebhooks(FAST + 1, async (_batch, number) => {
      // Both came too late for the claim of the batch that is running.
      if (number === 1 || number === 2) await deliver(webhooks, scene as Scene, 1)
    })
    await stage.play(webhooks, async (played) => {
      scene = played
      const inbox = await wakeInbox(played)
      await state(played, { processed: FAST + 3 })
      await inbox.result()
      // None of them waited for the inbox's last look.
      expect(webhooks.limits.slice(0, 4)).toEqual([FAST, BATCH, FAST, FAST])
    })
    expect(webhooks.pending).toBe(0)
  })

  it('does not end on an arrival that came during its last, empty claim', async () => {
    let scene: Scene | undefined
    let delivered = false
    const webhooks = new ScriptedWebhooks(1, async (_batch, number) => {
      if (number === 1 || webhooks.pending > 0 || delivered) return
      delivered = true
      await deliver(webhooks, scene as Scene, 1)
    })
    await stage.play(webhooks, async (played) => {
      scene = played
      const inbox = await wakeInbox(played)
      await inbox.result()
      expect(webhooks.pending).toBe(0)
      expect(await inbox.query(inboxState)).toMatchObject({ processed: 2 })
    })
  })

  it('takes an arrival a moment before its end itself, and one a moment after in a new life', async () => {
    const webhooks = new ScriptedWebhooks(0)
    await stage.play(webhooks, async (scene) => {
      // The server's own promise covers the moment between: a signal that came while the last task ran refuses its end.
      const inbox = await wakeInbox(scene)
      await state(scene, { phase: 'waiting' })
      await stage.env.sleep(IDLE_MS - MOMENT_MS)
      const before = await deliver(webhooks, scene, 1)
      expect(before.signaledRunId).toBe(inbox.signaledRunId)
      await before.result()

      const after = await deliver(webhooks, scene, 1)
      expect(after.signaledRunId).not.toBe(inbox.signaledRunId)
      expect(await after.result()).toMatchObject({ processed: 1 })
      expect(webhooks.pending).toBe(0)
    })
  })
})

describe('claims and runs', () => {
  it('is not started a second time by signal-with-start while it runs', async () => {
    const webhooks = new ScriptedWebhooks(1)
    await stage.play(webhooks, async (scene) => {
      const first = await wakeInbox(scene)
      const second = await deliver(webhooks, scene, 1)
      expect(second.signaledRunId).toBe(first.signaledRunId)
      expect(await first.result()).toMatchObject({ processed: 2 })
    })
  })

  it('goes on in a new run after 400 batches, with its totals, and claims again', async () => {
    const total = FAST + 410 * BATCH + 7
    const webhooks = new ScriptedWebhooks(total)
    await stage.play(webhooks, async (scene) => {
      const inbox = await wakeInbox(scene)
      const first = handleOf(scene, inbox.signaledRunId)
      expect(await inbox.result()).toMatchObject({ processed: total, batches: webhooks.claims.length })

      const { events } = await first.fetchHistory()
      const last = events?.at(-1)
      expect(last?.workflowExecutionContinuedAsNewEventAttributes).toBeTruthy()
      expect(events?.length).toBeLessThan(5_000)

      // `<run id>:<n>`, counted from 1 in each run, none twice.
      const runs = [inbox.signaledRunId, last?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId]
      const claims = webhooks.claims.map((batch) => batch.claim)
      expect(new Set(claims).size).toBe(claims.length)
      const ofFirst = claims.filter((claim) => claim.startsWith(`${runs[0]}:`))
      const ofSecond = claims.filter((claim) => claim.startsWith(`${runs[1]}:`))
      expect(ofFirst.length + ofSecond.length).toBe(claims.length)
      expect(ofFirst.length).toBeGreaterThanOrEqual(400)
      expect(ofFirst.length).toBeLessThan(400 + 4)
      expect(new Set(ofSecond)).toEqual(new Set(ofSecond.map((_, n) => `${runs[1]}:${n + 1}`)))
    })
    expect(webhooks.pending).toBe(0)
  })
})

/** Stores rows and wakes the inbox, in this order. */
function deliver(webhooks: ScriptedWebhooks, scene: Scene, rows: number) {
  webhooks.pending += rows
  return wakeInbox(scene)
}

/** Waits until the inbox says so. */
async function state(scene: Scene, expected: object): Promise<void> {
  await expect.poll(() => handleOf(scene).query(inboxState), SOON).toMatchObject(expected)
}
