import { Context } from '@temporalio/activity'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PumpInput } from '../../src/claims/pump-jobs.ts'
import { recordEvents } from '../../src/events/durable-events.ts'
import { claimEvents } from '../../src/events/queries.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { pumpCalls, pumpedQueueState } from '../../src/workflows/messages.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { ScriptedPumps } from './scripted-pumps.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, handleOf, lifetimeMs, openStage, wakeOutbox } from './stage.ts'

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
  it('ends with its last pump when nothing is left, as the inbox does', async () => {
    const pumps = new ScriptedPumps(3)
    await stage.play(pumps, async (scene) => {
      const outbox = await wakeOutbox(scene)
      expect(await outbox.result()).toEqual({ pumps: [], ended: 1, processed: 3, failed: 0, nextDueAt: null })
      expect(pumps.claims).toEqual([`pump:${outbox.signaledRunId}:1`])
      expect(await countEvents(outbox, 'timerStartedEventAttributes')).toBe(0)
    })
  })

  it('sleeps until the next event is due, as its last pump says, and has another one look then', async () => {
    const at: number[] = []
    let scene: Scene | undefined
    const waits = [10_000, 3_600_000, null]
    const pumps: ScriptedPumps = new ScriptedPumps(1, async (pump) => {
      at.push((await scene?.now()) ?? 0)
      pumps.nextDueInMs = waits[pump - 1] ?? null
      return 'empty'
    })
    await stage.play(pumps, async (played) => {
      scene = played
      expect(await (await wakeOutbox(played)).result()).toMatchObject({ ended: 3, processed: 1 })
      expect(secondsBetween(at)[0]).toBeGreaterThanOrEqual(10)
      expect(secondsBetween(at)[1]).toBeGreaterThanOrEqual(3_600)
    })
  })

  it('goes by the earliest moment that one of its pumps has seen', async () => {
    const at: number[] = []
    let scene: Scene | undefined
    const hasEnded = occasion()
    const pumps: ScriptedPumps = new ScriptedPumps(0, async (pump, claim) => {
      at.push((await scene?.now()) ?? 0)
      if (pump === 1) {
        await handleOf(scene as Scene).signal(pumpCalls, { claim, needs: 'help' })
        await hasEnded.happened
      }
      pumps.nextDueInMs = pump === 2 ? 60_000 : null
      return 'empty'
    })
    await stage.play(pumps, async (played) => {
      scene = played
      const outbox = await wakeOutbox(played)
      await expect.poll(() => outbox.query(pumpedQueueState), SOON).toMatchObject({ ended: 1, nextDueAt: null })
      hasEnded.happen()
      expect(await outbox.result()).toMatchObject({ ended: 3 })
      expect(secondsBetween(at)[1]).toBeGreaterThanOrEqual(60)
    })
  })

  it('does not turn in circles over an event that is due and held by somebody else', async () => {
    const at: number[] = []
    let scene: Scene | undefined
    const pumps: ScriptedPumps = new ScriptedPumps(0, async (pump) => {
      at.push((await scene?.now()) ?? 0)
      pumps.nextDueInMs = pump < 4 ? 0 : null
      return 'empty'
    })
    await stage.play(pumps, async (played) => {
      scene = played
      await (await wakeOutbox(played)).result()
      expect(at).toHaveLength(4)
      for (const wait of secondsBetween(at)) expect(wait).toBeGreaterThanOrEqual(1)
    })
  })

  it.each<[string, (scene: Scene) => Promise<unknown>]>([
    ['it is woken', wakeOutbox],
    ['a pump of before calls for another one', (scene) => handleOf(scene).signal(pumpCalls, STALE_CALL)],
  ])('looks at once when %s while it sleeps, and says meanwhile until when it does', async (_, wakes) => {
    const pumps: ScriptedPumps = new ScriptedPumps(0, async (pump) => {
      pumps.nextDueInMs = pump === 1 ? 3_600_000 : null
      return 'empty'
    })
    await stage.play(pumps, async (scene) => {
      const outbox = await wakeOutbox(scene)
      await expect
        .poll(() => outbox.query(pumpedQueueState), SOON)
        .toMatchObject({ ended: 1, nextDueAt: expect.stringMatching(/^\d{4}-.*Z$/) })
      await wakes(scene)
      await expect.poll(() => pumps.claims, SOON).toHaveLength(2)
      expect(await outbox.result()).toMatchObject({ ended: 2 })
      expect(await lifetimeMs(outbox)).toBeLessThan(3_600_000)
    })
  })
})

const STALE_CALL = { claim: 'pump:of-before:1', needs: 'help' } as const

function secondsBetween(at: readonly number[]): number[] {
  return at.slice(1).map((next, index) => Math.round((next - (at[index] as number)) / 1_000))
}

describe('an outbox with its real activities', () => {
  it('takes up what a worker that died had claimed, and tells it once more at most', async () => {
    await withHost(async ({ test, play }) => {
      const heard: string[] = []
      test.integrations.on('ReauthRequired', ({ reason }) => void heard.push(reason), { queued: true })
      const { id } = await makeIntegration(test, 'acme')
      await recordEvents(test.framework, test.framework.db, id, [
        { name: 'ReauthRequired', payload: { reason: 'revoked' } },
      ])
      let tries = 0
      const dies = async ({ claim }: PumpInput): Promise<void> => {
        tries += 1
        if (tries > 1) return
        const { db, tables, clock } = test.framework
        const room = { after: 0, integrations: 10, rows: 10, room: 10, rooms: {} }
        await claimEvents(db, tables, `${claim}:1`, room, clock.now().getTime())
        throw new Error('the worker died')
      }
      await play(async (outbox) => {
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 0 })
      }, dies)
      expect(heard).toEqual(['revoked'])
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
      const { db, tables } = test.framework
      await recordEvents(test.framework, db, id, [{ name: 'ReauthRequired', payload: { reason: 'revoked' } }])
      // The last tries, which wait the longest: each takes a pump's seconds. All waits are in delivery-rules.test.ts.
      const at = new Date(0).toISOString()
      const waiting7 = { status: 'waiting', attempts: 7, dueAt: at, error: 'Error: the receiver is down', at }
      await db.update(tables.events).set({ outcomes: { 'listener:down': waiting7 } })
      await play(async (outbox) => {
        // One event, done with at its tenth try.
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 2 })
      })
      expect(heard).toEqual(['up: revoked', 'down: revoked'])
      expect(tries).toHaveLength(3)
      expect(upAt).toBe(tries[0])
      // Each wait as the rule says; a second is what the server's time moves on by itself.
      const waits = tries.slice(1).map((at, index) => at - (tries[index] as number))
      for (const [index, wait] of [1_280, 2_560].entries()) expect(waits[index]).toBeGreaterThanOrEqual(wait)
      // No step was left out.
      expect(tries.at(-1)).toBeLessThan(2 * 3_840)
      expect(await test.integrations.admin.notifications.status()).toMatchObject({ waiting: 0, givenUp: [] })
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
      await play(async (outbox) => {
        await hangs.happened
        try {
          await store('second')
          await expect.poll(() => heard, SOON).toEqual(['second'])
        } finally {
          release.happen()
        }
        expect(await outbox.result()).toMatchObject({ processed: 2, failed: 0 })
      })
      expect(heard).toEqual(['second', 'first'])
    })
  })

  it('gives a listener up at its tenth try, until somebody asks for another ten', async () => {
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
      const { db, tables } = test.framework
      await recordEvents(test.framework, db, id, [{ name: 'OAuthRevoked', payload: {} }])
      const at = new Date(0).toISOString()
      const waiting8 = { status: 'waiting', attempts: 8, dueAt: at, error: 'Error: the receiver is down', at }
      await db.update(tables.events).set({ outcomes: { 'listener:crm': waiting8 } })
      await play(async (outbox) => {
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 1 })
      })
      expect(calls).toBe(2)
      const { givenUp, waiting } = await test.integrations.admin.notifications.status()
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
      expect(await test.integrations.admin.notifications.retry()).toBe(1)
      await play(async (outbox) => {
        expect(await outbox.result()).toMatchObject({ processed: 1, failed: 0 })
      })
      expect(calls).toBe(3)
      expect(await test.integrations.admin.notifications.status()).toMatchObject({ waiting: 0, givenUp: [] })
    })
  })
})

interface Host {
  readonly test: TestIntegrations
  /** The server's time, as the last pump saw it when it began. */
  readonly clock: ManualClock
  /** @param before runs in each pump, before its work */
  play(
    act: (outbox: Awaited<ReturnType<typeof wakeOutbox>>) => Promise<void>,
    before?: (input: PumpInput) => Promise<void>,
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
            pumpEvents: async (input) => {
              clock.set(new Date(await stage.env.currentTimeMs()))
              await before(input)
              return runActivity(test.activities.pumpEvents, input, { attempt: Context.current().info.attempt })
            },
          },
          async (scene) => act(await wakeOutbox(scene)),
        ),
    })
  } finally {
    await test.close()
  }
}
