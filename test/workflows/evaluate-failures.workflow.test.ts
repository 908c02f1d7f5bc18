import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import type { Stage } from './stage.ts'
import { countEvents, openStage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

const RESULT = { enabled: true, checked: 3, elevated: [], recovered: [9] }

it.each([WORKFLOW.evaluateFailures, 'integrations:evaluate-failures'])(
  '%s is one activity, tried again while the database is away, whose result it gives back',
  async (workflow) => {
    let tries = 0
    const evaluateFailureRatesNow: Activities['evaluateFailureRatesNow'] = async () => {
      tries += 1
      if (tries < 3) throw new Error('the connection was refused')
      return RESULT
    }
    await stage.play({ evaluateFailureRatesNow }, async ({ client, ...options }) => {
      const run = await client.start(workflow, options)
      expect(await run.result()).toEqual(RESULT)
      // By the command's name it first looks for Postgres.
      const steps = workflow === WORKFLOW.evaluateFailures ? 1 : 2
      expect(await countEvents(run, 'activityTaskScheduledEventAttributes')).toBe(steps)
    })
    expect(tries).toBe(3)
  },
)

it('is given up after five tries: the next minute evaluates again', async () => {
  let tries = 0
  const evaluateFailureRatesNow: Activities['evaluateFailureRatesNow'] = async () => {
    tries += 1
    throw new Error('the connection was refused')
  }
  await stage.play({ evaluateFailureRatesNow }, async ({ client, ...options }) => {
    await expect(client.execute(WORKFLOW.evaluateFailures, options)).rejects.toThrow('Workflow execution failed')
  })
  expect(tries).toBe(5)
})
