import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import type { Stage } from './stage.ts'
import { countEvents, openStage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

const NO_EDGES = { stale: [], recovered: [] }

describe('dispatching syncs', () => {
  it.each([WORKFLOW.dispatchSyncs, 'integrations:sync'])(
    'as %s starts what is due, evaluates staleness, wakes who missed a change, and gives back the first two',
    async (workflow) => {
      const calls: string[] = []
      const counts = { due: 3, started: 2, alreadyRunning: 1 }
      const edges = { stale: [{ integrationId: 4, lastSyncedAt: null }], recovered: [9] }
      const activities: Partial<Activities> = {
        async startDueSyncs() {
          calls.push('start')
          return counts
        },
        async evaluateStaleness() {
          calls.push('evaluate')
          return edges
        },
        async rewakeFollowers() {
          calls.push('rewake')
        },
      }
      await stage.play(activities, async ({ client, ...options }) => {
        const handle = await client.start(workflow, options)
        expect(await handle.result()).toEqual({ ...counts, ...edges })
        // By the command's name it first looks for Postgres.
        const steps = workflow === WORKFLOW.dispatchSyncs ? 3 : 4
        expect(await countEvents(handle, 'activityTaskScheduledEventAttributes')).toBe(steps)
      })
      expect(calls).toEqual(['start', 'evaluate', 'rewake'])
    },
  )

  it('goes on when the database comes back, at each step', async () => {
    let tries = 0
    const startDueSyncs: Activities['startDueSyncs'] = async () => {
      tries += 1
      if (tries < 4) throw new Error('the connection was refused')
      return { due: 0, started: 0, alreadyRunning: 0 }
    }
    const evaluateStaleness: Activities['evaluateStaleness'] = async () => {
      tries += 1
      if (tries < 6) throw new Error('the connection was refused')
      return NO_EDGES
    }
    const rewakeFollowers: Activities['rewakeFollowers'] = async () => {
      tries += 1
      if (tries < 8) throw new Error('the connection was refused')
    }
    await stage.play({ startDueSyncs, evaluateStaleness, rewakeFollowers }, async ({ client, ...options }) => {
      const result = await client.execute(WORKFLOW.dispatchSyncs, options)
      expect(result).toEqual({ due: 0, started: 0, alreadyRunning: 0, ...NO_EDGES })
    })
    expect(tries).toBe(8)
  })
})
