/** The workflows of one webhook, of recovery and of reconciliation: what they ask for, and what they give back. */
import { randomUUID } from 'node:crypto'
import { ApplicationFailure } from '@temporalio/activity'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { ProcessWebhookInput, ReconcileWebhooksInput } from '../../src/webhooks/webhook-jobs.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { processWebhookState } from '../../src/workflows/messages.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, openStage } from './stage.ts'

type One = Parameters<Activities['processOneWebhook']>[0]
type Reconciled = Awaited<ReturnType<Activities['reconcileIntegration']>>

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

const start = ({ client, ...options }: Scene, workflow: string, ...args: unknown[]) =>
  client.start(workflow, { ...options, workflowId: `job-${randomUUID()}`, args })

describe('a job of one webhook', () => {
  const job = async (input: ProcessWebhookInput, activities: Partial<Activities>) =>
    stage.play(activities, async (scene) => {
      const handle = await start(scene, WORKFLOW.processWebhook, input)
      const result: unknown = await handle.result()
      const { runId } = await handle.describe()
      return { result, runId, state: await handle.query(processWebhookState), steps: await countEvents(handle, STEPS) }
    })
  const STEPS = 'activityTaskScheduledEventAttributes'
  const processed = ({ webhookId }: One) =>
    ({ webhookId, outcome: 'processed', status: 'processed', attempts: 3 }) as const

  it('claims it under its run’s id, and says how it ended', async () => {
    const asked: One[] = []
    const processOneWebhook = async (input: One) => {
      asked.push(input)
      return processed(input)
    }
    const { result, runId, state, steps } = await job({ webhookId: 12, stuckAttempts: 2 }, { processOneWebhook })
    expect(asked).toEqual([{ webhookId: 12, stuckAttempts: 2, claim: `${runId}:1` }])
    expect(result).toEqual({ webhookId: 12, outcome: 'processed', status: 'processed', attempts: 3 })
    expect(state).toEqual({ phase: 'done', outcome: result })
    expect(steps).toBe(1)
  })

  it('of a replay notes the attempts first, so that a second try knows its own settlement', async () => {
    const asked: One[] = []
    const { steps } = await job(
      { webhookId: 12, replay: true },
      {
        readWebhookState: async () => ({ status: 'failed', attempts: 2 }),
        async processOneWebhook(input) {
          asked.push(input)
          return processed(input)
        },
      },
    )
    expect(asked).toMatchObject([{ webhookId: 12, replay: true, attemptsBefore: 2 }])
    expect(steps).toBe(2)
  })

  it('goes to another worker under the same claim when one gives it back', async () => {
    const claims: string[] = []
    const { result } = await job(
      { webhookId: 12 },
      {
        async processOneWebhook(input) {
          claims.push(input.claim)
          if (claims.length < 3) throw new Error('webhook 12 went back to pending before its handler ended')
          return processed(input)
        },
      },
    )
    expect(claims).toHaveLength(3)
    expect(new Set(claims).size).toBe(1)
    expect(result).toMatchObject({ outcome: 'processed' })
  })

  it('ends well when the handler failed', async () => {
    const failed = { webhookId: 12, outcome: 'failed', status: 'failed', attempts: 1 } as const
    const { result } = await job({ webhookId: 12 }, { processOneWebhook: async () => failed })
    expect(result).toEqual(failed)
  })
})

describe('recovering webhooks', () => {
  it('is one activity, tried until Temporal and Postgres are back', async () => {
    const counts = { processing: 1, pending: 2, failed: 3 }
    let tries = 0
    const recoverStuckWebhooks = async () => {
      tries += 1
      if (tries < 3) throw new Error('the connection was refused')
      return counts
    }
    await stage.play({ recoverStuckWebhooks }, async (scene) => {
      expect(await (await start(scene, 'integrations:recover-webhooks')).result()).toEqual(counts)
    })
    expect(tries).toBe(3)
  })
})

describe('reconciling webhooks', () => {
  const NONE: Reconciled = { seen: 0, known: 0, inserted: 0, tooLarge: 0, capped: false }
  const reconcile = async (
    input: ReconcileWebhooksInput,
    integrationIds: number[],
    one: Activities['reconcileIntegration'],
  ) =>
    stage.play({ listReconcilable: async () => ({ integrationIds }), reconcileIntegration: one }, async (scene) => {
      const handle = await start(scene, WORKFLOW.reconcileWebhooks, input)
      return handle.result()
    })

  it('adds up what each integration gave', async () => {
    const result = await reconcile({}, [1, 2, 3, 4, 5, 6, 7], async ({ integrationId: n }) => ({
      seen: 10 * n,
      known: n,
      inserted: 2 * n,
      tooLarge: n === 3 ? 1 : 0,
      capped: n > 5,
    }))
    expect(result).toEqual({
      integrations: 7,
      seen: 280,
      known: 28,
      inserted: 56,
      tooLarge: 1,
      capped: 2,
      failed: 0,
      skipped: 0,
      reasons: [],
    })
  })

  it('counts those that name no webhook to list, with the reasons of ten', async () => {
    const ids = Array.from({ length: 12 }, (_, index) => index + 1)
    const result = await reconcile({}, ids, async ({ integrationId }) =>
      integrationId === 1 ? { ...NONE, seen: 1 } : { ...NONE, skipped: 'no webhook to list' },
    )
    expect(result).toMatchObject({ integrations: 12, seen: 1, failed: 0, skipped: 11 })
    expect(result.reasons).toHaveLength(10)
    expect(result.reasons).toContain('integration 2: no webhook to list')
  })

  it('asks about no more than four at once', async () => {
    let running = 0
    let most = 0
    let begun = 0
    await reconcile({}, [1, 2, 3, 4, 5, 6], async () => {
      running += 1
      begun += 1
      most = Math.max(most, running)
      // The first four wait for each other.
      while (begun < 4) await new Promise((resolve) => setImmediate(resolve))
      running -= 1
      return NONE
    })
    expect(most).toBe(4)
  })

  it('passes on what was asked for, and nothing else', async () => {
    const asked: unknown[] = []
    await reconcile({ integrationId: 7, since: '2026-06-01T00:00:00Z', dryRun: true }, [7], async (input) => {
      asked.push(input)
      return NONE
    })
    expect(asked).toEqual([{ integrationId: 7, since: '2026-06-01T00:00:00Z', dryRun: true }])
  })

  it('counts the one whose listing fails, after three tries, and goes on with the others', async () => {
    const tries: number[] = []
    const result = await reconcile({}, [1, 2], async ({ integrationId }) => {
      tries.push(integrationId)
      if (integrationId === 1) throw new Error('502')
      return { ...NONE, seen: 1 }
    })
    expect(result).toMatchObject({ integrations: 2, seen: 1, failed: 1 })
    expect(tries.filter((id) => id === 1)).toHaveLength(3)
  })

  it('does not try again what can’t be helped', async () => {
    const tries: number[] = []
    const result = await reconcile({}, [1], async ({ integrationId }) => {
      tries.push(integrationId)
      throw ApplicationFailure.nonRetryable('the token was refused', 'client')
    })
    expect(result).toMatchObject({ integrations: 1, failed: 1 })
    expect(tries).toEqual([1])
  })

  it('does nothing when nobody can be asked', async () => {
    expect(
      await reconcile({}, [], async () => {
        throw new Error('asked')
      }),
    ).toMatchObject({ integrations: 0, failed: 0 })
  })
})
