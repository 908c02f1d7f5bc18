/** Commands with workflows of their own, started by name while the database is away: they end, and say so. */
import type { WorkflowHandle } from '@temporalio/client'
import { ApplicationFailure } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { processSyncItemState } from '../../src/workflows/messages.ts'
import { COMMAND_WORKFLOWS } from '../support/command-workflows.ts'
import type { Stage } from './stage.ts'
import { openStage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

/** Its input, and the name by which code starts the same. */
const OWN: Readonly<Record<string, readonly [input: object, name: string]>> = {
  'refresh-tokens': [{}, WORKFLOW.refreshTokens],
  'evaluate-failures': [{}, WORKFLOW.evaluateFailures],
  sync: [{}, WORKFLOW.dispatchSyncs],
  'list-failed-items': [{}, WORKFLOW.listFailedItems],
  'retry-sync-item': [{ itemId: 5 }, WORKFLOW.processSyncItem],
  'skip-sync-item': [{ itemId: 5 }, WORKFLOW.skipSyncItem],
  'advance-cursor': [{ integrationId: 7 }, WORKFLOW.advanceCursor],
  'replay-webhook': [{ webhookId: 12 }, WORKFLOW.processWebhook],
  'recover-webhooks': [{}, WORKFLOW.recoverWebhooks],
  'reconcile-webhooks': [{}, WORKFLOW.reconcileWebhooks],
  'find-orphans': [{ model: 'note' }, WORKFLOW.findOrphans],
  prune: [{}, WORKFLOW.prune],
}

const away = (): never => {
  throw ApplicationFailure.create({ type: 'backend_unreachable', message: 'Postgres was not reached at db:5432.' })
}

async function failureOf(handle: WorkflowHandle): Promise<ApplicationFailure> {
  const error = await handle.result().catch((caught: unknown) => caught)
  const { cause } = error as { readonly cause?: unknown }
  return cause instanceof ApplicationFailure ? cause : expect.fail(`it ended otherwise: ${error}`)
}

it('has each command that is a workflow of its own', () => {
  const own = COMMAND_WORKFLOWS.flatMap((entry) => (entry.type !== null && entry.runs === 'own' ? [entry.command] : []))
  expect(Object.keys(OWN).sort()).toEqual(own.sort())
})

describe('started by the name of its command while Postgres is away', () => {
  it('each ends with what to do, after six tries, and has begun nothing', async () => {
    let tries = 0
    const checkDatabase = async () => {
      tries += 1
      away()
    }
    await stage.play({ checkDatabase }, async ({ client, taskQueue }) => {
      for (const [command, [input]] of Object.entries(OWN)) {
        tries = 0
        const workflowId = `away:${command}`
        const handle = await client.start(`integrations:${command}`, { taskQueue, workflowId, args: [input] })
        const { type, message, nonRetryable, details } = await failureOf(handle)
        expect({ command, type, message, nonRetryable, tries }).toEqual({
          command,
          type: 'backend_unreachable',
          message: 'Postgres was not reached at db:5432. Nothing has been begun: start it again once Postgres is back.',
          nonRetryable: true,
          tries: 6,
        })
        expect(details).toEqual([{ error: { code: type, message } }])
        const { events } = await handle.fetchHistory()
        const asked = events?.flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [])
        expect(asked).toEqual(['checkDatabase'])
      }
    })
  })

  it('it goes on where Postgres comes back between two tries', async () => {
    let tries = 0
    const checkDatabase = async () => {
      tries += 1
      if (tries < 3) away()
    }
    const listFailedSyncItems: Activities['listFailedSyncItems'] = async () => []
    await stage.play({ checkDatabase, listFailedSyncItems }, async ({ client, ...options }) => {
      expect(await client.execute('integrations:list-failed-items', options)).toEqual([])
    })
    expect(tries).toBe(3)
  })

  it('it waits, as code that starts the same does, once it has begun: also in a new history', async () => {
    let looks = 0
    const checkDatabase = async () => {
      looks += 1
      if (looks > 1) away()
    }
    const processOneSyncItem: Activities['processOneSyncItem'] = async ({ itemId, attempt }) => ({
      itemId,
      outcome: attempt === 1 ? 'failed' : 'success',
      status: attempt === 1 ? 'processing' : 'success',
      attempts: attempt,
      error: null,
      waitSeconds: attempt === 1 ? 3_600 : null,
      isCounted: true,
    })
    await stage.play({ checkDatabase, processOneSyncItem }, async ({ client, ...options }) => {
      const handle = await client.start('integrations:retry-sync-item', { ...options, args: [{ itemId: 5, tries: 3 }] })
      await expect.poll(() => handle.query(processSyncItemState)).toMatchObject({ phase: 'waiting' })
      // Signals that it does not know make its history long.
      while ((await handle.describe()).historyLength < 2_000)
        await Promise.all(Array.from({ length: 200 }, (_, n) => handle.signal('nobody', n)))
      expect(await handle.result()).toMatchObject({ outcome: 'success', attempts: 2 })
      expect((await handle.describe()).runId).not.toBe(handle.firstExecutionRunId)
    })
    expect(looks).toBe(1)
  })
})
