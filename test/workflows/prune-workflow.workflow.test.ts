import { ApplicationFailure } from '@temporalio/activity'
import type { WorkflowFailedError } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { PruneStepInput, PruningStep } from '../../src/retention/rules.ts'
import { PRUNING_STEPS } from '../../src/retention/rules.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { occasion } from '../support/integrations.ts'
import type { Stage } from './stage.ts'
import { countEvents, openStage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

const countOf = (step: PruningStep): number => PRUNING_STEPS.indexOf(step) + 1
const ALL = Object.fromEntries(PRUNING_STEPS.map((step) => [step, countOf(step)]))

describe('pruning', () => {
  it.each(['integrations:prune', WORKFLOW.prune])('as %s takes each step in order, all of one run', async (name) => {
    const calls: PruneStepInput[] = []
    const pruneStep: Activities['pruneStep'] = async (input) => {
      calls.push(input)
      return countOf(input.step)
    }
    await stage.play({ pruneStep }, async ({ client, ...options }) => {
      const run = await client.start(name, options)
      expect(await run.result()).toEqual({ counts: ALL, failed: [] })
      // By the command's name it first looks for Postgres.
      const steps = PRUNING_STEPS.length + (name === WORKFLOW.prune ? 0 : 1)
      expect(await countEvents(run, 'activityTaskScheduledEventAttributes')).toBe(steps)
      expect(calls).toEqual(PRUNING_STEPS.map((step) => ({ step, runId: run.firstExecutionRunId })))
    })
  })

  it('tries a step again until the database is back', async () => {
    let tries = 0
    const pruneStep: Activities['pruneStep'] = async ({ step }) => {
      if (step === 'logs') tries += 1
      if (step === 'logs' && tries < 9) throw new Error('the connection was refused')
      return countOf(step)
    }
    await stage.play({ pruneStep }, async ({ client, ...options }) => {
      expect(await client.execute(WORKFLOW.prune, options)).toEqual({ counts: ALL, failed: [] })
    })
  })

  it('goes on after a step that no try mends, and counts what that had done', async () => {
    let tries = 0
    const asked: PruneStepInput[] = []
    const pruneStep: Activities['pruneStep'] = async ({ step }) => {
      if (step === 'cache') throw ApplicationFailure.nonRetryable('permission denied')
      if (step !== 'logs') return countOf(step)
      tries += 1
      throw new Error(`the index is broken (${tries})`)
    }
    const readPrunedRows: Activities['readPrunedRows'] = async (input) => {
      asked.push(input)
      if (input.step === 'cache') throw ApplicationFailure.nonRetryable('permission denied')
      return 4_000
    }
    await stage.play({ pruneStep, readPrunedRows }, async ({ client, ...options }) => {
      const run = await client.start(WORKFLOW.prune, options)
      expect(await run.result()).toEqual({
        counts: { ...ALL, logs: 4_000, cache: 0 },
        failed: [
          { step: 'logs', error: 'the index is broken (10)' },
          { step: 'cache', error: 'permission denied' },
        ],
      })
      const shown = JSON.stringify(await run.query('__temporal_workflow_metadata'))
      expect(shown).toContain('logs, cache')
      expect(shown).not.toMatch(/broken|permission/)
      expect(tries).toBe(10)
      expect(asked.map(({ runId }) => runId)).toEqual([run.firstExecutionRunId, run.firstExecutionRunId])
    })
  })

  it('ends when it is cancelled, and takes no further step', async () => {
    const steps: PruningStep[] = []
    // The step may begin before the start has been answered.
    const started = occasion<{ cancel(): Promise<unknown> }>()
    await stage.play(
      {
        async pruneStep({ step }) {
          steps.push(step)
          await (await started.happened).cancel()
          throw ApplicationFailure.create({ message: 'tried again, if it were not cancelled' })
        },
      },
      async ({ client, ...options }) => {
        const handle = await client.start(WORKFLOW.prune, options)
        started.happen(handle)
        const error = await handle.result().catch((thrown: unknown) => thrown)
        expect((error as WorkflowFailedError).cause?.name).toBe('CancelledFailure')
      },
    )
    expect(steps).toEqual(['requests'])
  })
})
