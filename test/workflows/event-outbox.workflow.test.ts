import { Context } from '@temporalio/activity'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EventBatch } from '../../src/activities/events.ts'
import { claimEvents } from '../../src/db/queries/events.ts'
import { recordEvents } from '../../src/operations/durable-events.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { outboxState } from '../../src/workflows/messages.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { ScriptedEvents, wakeOutbox } from './scripted-events.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, lifetimeMs, mostActivitiesAtOnce, openStage } from './stage.ts'

const IDLE_SECONDS = 300

let stage: Stage
let database: TestDatabase
beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
})
afterAll(async () => {
  await stage?.close()
  await database?.drop()
})

describe('an outbox', () => {
  it('sleeps until the next event is due, and ends five idle minutes after the last', async () => {
    const events = new ScriptedEvents([
      { claimed: 2, processed: 1, failed: 1, nextDueInMs: 10_000 },
      { claimed: 1, failed: 1, nextDueInMs: 3_600_000 },
      { claimed: 1, processed: 1 },
    ])
    await stage.play(events, async (scene) => {
      events.scene = scene
      const outbox = await wakeOutbox(scene)
      expect(await outbox.result()).toMatchObject({ processed: 2, failed: 2, batches: 4, phase: 'waiting' })
      expectWaits(events.waits, [10, 3_600, IDLE_SECONDS])
      expect(await lifetimeMs(outbox)).toBeGreaterThanOrEqual((3_610 + 2 * IDLE_SECONDS) * 1_000)
    })
  })

  it('takes events in lanes, never inside its own task', async () => {
    const events = new ScriptedEvents([
      { claimed: 200, processed: 200 },
      { claimed: 7, processed: 7 },
      { claimed: 1, processed: 1, nextDueInMs: 9_000 },
      { claimed: 1, processed: 1 },
    ])
    await stage.play(events, async (scene) => {
      events.scene = scene
      const outbox = await wakeOutbox(scene)
      expect(await outbox.result()).toMatchObject({ processed: 209, lanes: 0 })
      // A full lane opens a second one; what one of them knows of a later event is not forgotten for the other.
      expect(events.limits).toEqual([200, 200, 200, 200, 200])
      expectWaits(events.waits.slice(2), [9, IDLE_SECONDS])
      expect(await countEvents(outbox, 'activityTaskScheduledEventAttributes')).toBe(5)
    })
  })

  it('takes what arrives while its lanes are busy in further lanes, four at most', async () => {
    const release = occasion()
    const one = { claimed: 1, processed: 1 }
    const events = new ScriptedEvents([one, one, one, one, one], async (number) => {
      if (number <= 4) await release.happened
    })
    await stage.play(events, async (scene) => {
      events.scene = scene
      const outbox = await wakeOutbox(scene)
      try {
        for (const lanes of [1, 2, 3, 4]) {
          await expect.poll(() => events.batches, SOON).toHaveLength(lanes)
          await wakeOutbox(scene)
        }
        // The last signal finds no free lane, and is not lost.
        expect(await handleOf(scene).query(outboxState)).toMatchObject({ lanes: 4, batches: 0 })
        expect(events.limits).toEqual([200, 20, 20, 20])
      } finally {
        release.happen()
      }
      await expect.poll(() => events.batches, SOON).toHaveLength(5)
      expect(await outbox.result()).toMatchObject({ processed: 5, lanes: 0 })
      expect(await mostActivitiesAtOnce(outbox)).toBe(4)
    })
  })

  it('counts the time until the next event is due from when it was told of it', async () => {
    let scene: Scene | undefined
    const events = new ScriptedEvents(
      [
        { claimed: 1, failed: 1 },
        { claimed: 1, failed: 1, nextDueInMs: 20_000 },
        { claimed: 1, processed: 1 },
      ],
      async (number) => {
        if (number !== 1) return
        await wakeOutbox(scene as Scene)
        await expect.poll(() => handleOf(scene as Scene).query(outboxState), SOON).toMatchObject({ batches: 1 })
        // With signs of life in between: silent for 20 s it counts as lost.
        for (let slept = 0; slept < 15; slept += 5) {
          await stage.env.sleep('5 seconds')
          Context.current().heartbeat()
        }
      },
    )
    await stage.play(events, async (played) => {
      scene = played
      events.scene = played
      await (await wakeOutbox(played)).result()
      expect(events.waits[1]).toBeGreaterThanOrEqual(20)
      expect(events.waits[1]).toBeLessThan(20 + 15)
    })
  })

  it('does not turn in circles over an event that is due and held by somebody else', async () => {
    const held = Array.from({ length: 3 }, () => ({ nextDueInMs: 0 }))
    const events = new ScriptedEvents(held)
    await stage.play(events, async (scene) => {
      events.scene = scene
      await (await wakeOutbox(scene)).result()
      expectWaits(events.waits, [1, 1, 1])
    })
  })

  it('looks at once when it is woken while it sleeps', async () => {
    const events = new ScriptedEvents([
      { claimed: 1, failed: 1, nextDueInMs: 3_600_000 },
      { claimed: 1, processed: 1 },
    ])
    await stage.play(events, async (scene) => {
      events.scene = scene
      const outbox = await wakeOutbox(scene)
      await expect.poll(() => handleOf(scene).query(outboxState), SOON).toMatchObject({ batches: 1, phase: 'waiting' })
      const again = await wakeOutbox(scene)
      expect(again.signaledRunId).toBe(outbox.signaledRunId)
      await again.result()
      expect(events.waits[0]).toBeLessThan(60)
    })
  })

  it('is not ended by a signal that came during its last, empty claim', async () => {
    let scene: Scene | undefined
    const events = new ScriptedEvents([{}, { claimed: 1, processed: 1 }], async (number) => {
      if (number === 1) await wakeOutbox(scene as Scene)
    })
    await stage.play(events, async (played) => {
      scene = played
      events.scene = played
      expect(await (await wakeOutbox(played)).result()).toMatchObject({ processed: 1 })
      expect(events.waits[0]).toBeLessThan(60)
    })
  })
})

describe('an outbox with its real activities', () => {
  it('takes up what a worker that died had claimed, and tells it once more at most', async () => {
    await withHost(async ({ test, play }) => {
      const heard: string[] = []
      test.integrations.on('ReauthRequired', ({ reason }) => void heard.push(reason), { queued: true })
      const { id } = await makeIntegration(test, 'acme')
      await recordEvents(test.framework, test.framework.db, id, [
        { name: 'ReauthRequired', payload: { reason: 'revoked' } },
      ])
      const claims: string[] = []
      const dies = async ({ claim, limit }: EventBatch): Promise<void> => {
        claims.push(claim)
        if (claims.length > 1) return
        const { db, tables, clock } = test.framework
        await claimEvents(db, tables, { claim, limit, nowMs: clock.now().getTime() })
        throw new Error('the worker died')
      }
      await play(async (outbox) => {
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 0 })
      }, dies)
      expect(heard).toEqual(['revoked'])
      // The second try of the same batch carries the same claim; the batches after it have their own.
      expect(claims[1]).toBe(claims[0])
      expect(new Set(claims.slice(1)).size).toBe(claims.length - 1)
      expect(test.lines.filter(({ fields }) => fields.event === 'event.worker_lost')).toHaveLength(1)
    })
  })

  it('brings a listener that is down for an hour its event once it is back, and the others theirs at once', async () => {
    await withHost(async ({ test, clock, play }) => {
      const began = clock.now().getTime()
      const tries: number[] = []
      const heard: string[] = []
      const isDown = () => clock.now().getTime() < began + 3_600_000
      const seconds = () => Math.round((clock.now().getTime() - began) / 1_000)
      let upAt: number | undefined
      test.integrations.on(
        'ReauthRequired',
        ({ reason }) => {
          upAt = seconds()
          heard.push(`up: ${reason}`)
        },
        { queued: true, name: 'up' },
      )
      test.integrations.on(
        'ReauthRequired',
        ({ reason }) => {
          tries.push(seconds())
          if (isDown()) throw new Error('the receiver is down')
          heard.push(`down: ${reason}`)
        },
        { queued: true, name: 'down' },
      )
      const { id } = await makeIntegration(test, 'acme')
      await recordEvents(test.framework, test.framework.db, id, [
        { name: 'ReauthRequired', payload: { reason: 'revoked' } },
      ])
      await play(async (outbox) => {
        // One event, done with at its tenth try.
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 9 })
      })
      expect(heard).toEqual(['up: revoked', 'down: revoked'])
      expect(tries).toHaveLength(10)
      expect(upAt).toBe(tries[0])
      // Each wait as the rule says; a second is what the server's time moves on by itself.
      const waits = tries.slice(1).map((at, index) => at - (tries[index] as number))
      for (const [index, wait] of [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560].entries())
        expect(waits[index]).toBeGreaterThanOrEqual(wait)
      expect(tries.at(-1)).toBeLessThan(5_110 + 60)
      expect(await test.integrations.notifications.status()).toMatchObject({ waiting: 0, givenUp: [] })
    })
  })

  it('tells of a second event while the listener of a first one hangs', async () => {
    await withHost(async ({ test, play }) => {
      const hangs = occasion()
      const release = occasion()
      const heard: string[] = []
      test.integrations.on(
        'ReauthRequired',
        async ({ reason }) => {
          if (reason === 'first') {
            hangs.happen()
            await release.happened
          }
          heard.push(reason)
        },
        { queued: true },
      )
      const { id } = await makeIntegration(test, 'acme')
      const store = (reason: string) =>
        recordEvents(test.framework, test.framework.db, id, [{ name: 'ReauthRequired', payload: { reason } }])
      await store('first')
      await play(async (outbox, scene) => {
        await hangs.happened
        try {
          await store('second')
          await wakeOutbox(scene)
          await expect.poll(() => heard, SOON).toEqual(['second'])
        } finally {
          release.happen()
        }
        expect(await outbox.result()).toMatchObject({ processed: 2, failed: 0 })
      })
      expect(heard).toEqual(['second', 'first'])
    })
  })

  it('gives a listener up after ten tries, until somebody asks for another ten', async () => {
    await withHost(async ({ test, play }) => {
      let isDown = true
      let calls = 0
      test.integrations.on(
        'OAuthRevoked',
        () => {
          calls += 1
          if (isDown) throw new Error('the receiver is down')
        },
        { queued: true, name: 'crm' },
      )
      const { id } = await makeIntegration(test, 'acme')
      await recordEvents(test.framework, test.framework.db, id, [{ name: 'OAuthRevoked', payload: {} }])
      await play(async (outbox) => {
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 9 })
      })
      expect(calls).toBe(10)
      const { givenUp, waiting } = await test.integrations.notifications.status()
      expect(waiting).toBe(0)
      expect(givenUp).toEqual([
        expect.objectContaining({
          name: 'OAuthRevoked',
          integrationId: id,
          listener: 'listener:crm',
          error: 'Error: the receiver is down',
        }),
      ])
      expect(test.lines.filter(({ fields }) => fields.event === 'event.given_up')).toMatchObject([{ level: 'error' }])

      isDown = false
      expect(await test.integrations.notifications.retry()).toBe(1)
      await play(async (outbox) => {
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 0 })
      })
      expect(calls).toBe(11)
      expect(await test.integrations.notifications.status()).toMatchObject({ waiting: 0, givenUp: [] })
    })
  })
})

/** In seconds. The server's time also moves on by itself, a little. */
function expectWaits(waits: readonly number[], expected: readonly number[]): void {
  expect(waits).toHaveLength(expected.length)
  for (const [index, wait] of expected.entries()) {
    expect(waits[index]).toBeGreaterThanOrEqual(wait)
    expect(waits[index]).toBeLessThan(wait + 60)
  }
}

interface Host {
  readonly test: TestIntegrations
  /** The server's time, as the last batch saw it. */
  readonly clock: ManualClock
  /** @param before runs in each batch, before its work */
  play(
    act: (outbox: Awaited<ReturnType<typeof wakeOutbox>>, scene: Scene) => Promise<void>,
    before?: (batch: EventBatch) => Promise<void>,
  ): Promise<void>
}

/** A host whose clock is the server's: a skipped hour is one for the rows, too. */
async function withHost(use: (host: Host) => Promise<void>): Promise<void> {
  const clock = new ManualClock()
  const test = testIntegrations(database.url, { providers: { acme: webhookProvider() }, clock })
  try {
    clock.set(new Date(await stage.env.currentTimeMs()))
    await use({
      test,
      clock,
      play: (act, before = async () => {}) =>
        stage.play(
          {
            deliverEvents: async (batch) => {
              clock.set(new Date(await stage.env.currentTimeMs()))
              await before(batch)
              return runActivity(test.activities.deliverEvents, batch)
            },
          },
          async (scene) => act(await wakeOutbox(scene), scene),
        ),
    })
  } finally {
    await test.close()
  }
}
