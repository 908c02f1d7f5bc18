import { ApplicationFailure } from '@temporalio/activity'
import { WorkflowFailedError } from '@temporalio/client'
import { workflowMetadataQuery } from '@temporalio/workflow'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asRefusal } from '../../src/activities/activity-failures.ts'
import { IntegrationInactive, SyncItemNotFailed } from '../../src/framework/errors.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { cancel, pause, resume } from '../../src/workflows/messages.ts'
import { ScriptedPumps } from './scripted-pumps.ts'
import { ScriptedSync } from './scripted-sync.ts'
import type { Scene, Stage } from './stage.ts'
import { handleOf, openStage, seen, startSync, wakeInbox } from './stage.ts'

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
}, 300_000)
afterAll(() => stage?.close())

/** As the UI reads it. */
async function currentDetails(scene: Scene): Promise<string> {
  return (await handleOf(scene).query(workflowMetadataQuery)).currentDetails ?? ''
}

describe('the current details', () => {
  it('of a run say where it is, what it waits for and how it is steered', async () => {
    const sync = new ScriptedSync(3, {
      attempt: (id) => (id === 2 ? { retryAfter: 3_600 } : id === 3 ? 'fails' : 'succeeds'),
    })
    await stage.play(sync.activities(), async (scene) => {
      sync.scene = scene
      await startSync(scene)
      await seen(scene, ({ waiting }) => waiting === 1)
      const atWork = await currentDetails(scene)
      expect(atWork).toContain('**Sync of integration 7: processing items**')
      for (const row of ['| Run | 70 |', '| Listed | 3 |', '| Succeeded | 1 |', '| Failed | 1 |'])
        expect(atWork).toContain(row)
      expect(atWork).toContain('| Waiting for another attempt | 1 |')
      expect(atWork).toContain('`integrations list-failed-items --integration 7`')
      expect(atWork).toContain('Signal `pause`')

      await handleOf(scene).signal(pause)
      expect(await currentDetails(scene)).toContain('**Sync of integration 7: paused while processing items**')
      expect(await currentDetails(scene)).toContain('Signal `resume`')
      await handleOf(scene).signal(resume)
      expect(await currentDetails(scene)).toContain('**Sync of integration 7: processing items**')
      await handleOf(scene).signal(cancel)
      await handleOf(scene).result()
      expect(await currentDetails(scene)).toContain('**Sync of integration 7: done**')
    })
  })

  it('of a run name the moment before which the provider lets nothing new in', async () => {
    const sync = new ScriptedSync(1, { attempt: () => ({ deferredBy: 3_600 }) })
    await stage.play(sync.activities(), async (scene) => {
      sync.scene = scene
      await startSync(scene)
      const { intakeFrom } = await seen(scene, (progress) => progress.intakeFrom !== null)
      expect(await currentDetails(scene)).toContain(`| Waits for the rate limit until | ${intakeFrom} |`)
      await handleOf(scene).terminate()
    })
  })

  it('of the inbox say how many pumps are at work, and what those that have ended did', async () => {
    const atWork: string[] = []
    let scene: Scene | undefined
    const pumps = new ScriptedPumps(3, async () => {
      atWork.push(await currentDetails(scene as Scene))
      return 'empty'
    })
    await stage.play(pumps, async (played) => {
      scene = played
      const inbox = await wakeInbox(played)
      await inbox.result()
      expect(atWork).toEqual([expect.stringContaining('**Webhooks: 1 pump at work**')])
      const details = await currentDetails(played)
      expect(details).toContain('**Webhooks: 0 pumps at work**')
      expect(details).toContain('| Processed | 3 |')
      expect(details).toContain('| Pumps that have ended | 1 |')
      expect(details).toContain('`integrations list-webhooks`')
    })
  })
})

describe('signals and queries', () => {
  it('of a run say in the UI what they do, and which input they take', async () => {
    const sync = new ScriptedSync(1, { attempt: () => ({ retryAfter: 3_600 }) })
    await stage.play(sync.activities(), async (scene) => {
      sync.scene = scene
      await startSync(scene)
      await seen(scene, ({ waiting }) => waiting === 1)
      const { definition } = await handleOf(scene).query(workflowMetadataQuery)
      const described = (list: { name?: string | null; description?: string | null }[] | null | undefined) =>
        Object.fromEntries((list ?? []).map(({ name, description }) => [name, description]))
      expect(described(definition?.signalDefinitions)).toEqual({
        began: expect.stringContaining('how far it is'),
        pause: expect.stringContaining('Takes nothing new in'),
        resume: 'Ends a pause. No input.',
        cancel: expect.stringContaining('Ends the run'),
        retryItem: expect.stringContaining('Input: {"itemId": 5}'),
        skipItem: expect.stringContaining('Input: {"itemId": 5}'),
        itemsChanged: expect.stringContaining('changed from outside'),
      })
      expect(described(definition?.queryDefinitions)).toMatchObject({ progress: expect.stringContaining('How far') })
      await handleOf(scene).terminate()
    })
  })

  it('of the inbox do, too', async () => {
    await stage.play(new ScriptedPumps(0), async (scene) => {
      const inbox = await wakeInbox(scene)
      await inbox.result()
      const { definition } = await handleOf(scene).query(workflowMetadataQuery)
      expect(definition?.signalDefinitions).toMatchObject([
        { name: 'arrived', description: expect.any(String) },
        { name: 'pumpCalls', description: expect.stringContaining('Sent by pumps') },
      ])
      expect(definition?.queryDefinitions).toContainEqual(
        expect.objectContaining({ name: 'state', description: expect.stringContaining('Its pumps') }),
      )
    })
  })
})

describe('a failed workflow', () => {
  it("has the activity's words, its code and the command that mends it at the top", async () => {
    const skipFailedItem = async () => {
      // As commandStep() throws it.
      throw asRefusal(new SyncItemNotFailed(5, 'success'))
    }
    await stage.play({ skipFailedItem }, async ({ client, ...options }) => {
      const run = await client.start(WORKFLOW.skipSyncItem, { ...options, args: [{ itemId: 5 }] })
      await expect(run.result()).rejects.toMatchObject({
        cause: {
          type: 'sync_item_not_failed',
          message:
            'Sync item 5 is success; only one that is failed can be retried or skipped. `integrations list-failed-items` shows those that can be.',
        },
      })
    })
  })

  it.each([
    ['may be tried again where its activity might have been', false],
    ['is final where its activity was', true],
  ])('%s', async (_, nonRetryable) => {
    const evaluateFailureRatesNow = async () => {
      throw ApplicationFailure.create({ message: 'no answer', type: 'constructor', nonRetryable })
    }
    await stage.play({ evaluateFailureRatesNow }, async ({ client, ...options }) => {
      const run = await client.start(WORKFLOW.evaluateFailures, options)
      const error: unknown = await run.result().catch((caught: unknown) => caught)
      const cause = error instanceof WorkflowFailedError ? error.cause : error
      expect(cause).toMatchObject({ type: 'constructor', message: 'no answer.', nonRetryable })
      // No stack of the bundle stays in the history.
      expect(cause).toMatchObject({ stack: '' })
    })
  })

  it('of a listing says what was wrong, and what to do about it', async () => {
    const sync = new ScriptedSync(1)
    const listSyncItems = async () => {
      throw new IntegrationInactive(7, 'an operator')
    }
    await stage.play(sync.activities({ listSyncItems }), async (scene) => {
      sync.scene = scene
      const run = await startSync(scene)
      const refused = await run.result().then(String, (error: { cause: Error }) => error.cause.message)
      expect(refused).toContain('The listing did not end: An active integration is needed, 7 is switched off')
      expect(refused).toContain(
        '`integrations enable 7` switches it on. The next run starts over; `integrations show-sync-run 70` has the log.',
      )
      // The log's reason is the provider's side of it alone.
      expect(sync.failure).not.toContain('integrations enable')
    })
  })
})
