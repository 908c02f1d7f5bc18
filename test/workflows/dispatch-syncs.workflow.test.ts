import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { WORKFLOW } from '../../src/workflows/messages.ts'
import type { Stage } from './stage.ts'
import { countEvents, openStage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

describe('dispatching syncs', () => {
  it('starts what is due in one activity and gives back the counts', async () => {
    const counts = { due: 3, started: 2, alreadyRunning: 1 }
    await stage.play({ startDueSyncs: async () => counts }, async ({ client, ...options }) => {
      const handle = await client.start(WORKFLOW.dispatchSyncs, options)
      expect(await handle.result()).toEqual(counts)
      expect(await countEvents(handle, 'activityTaskScheduledEventAttributes')).toBe(1)
    })
  })

  it('goes on when the database comes back', async () => {
    let tries = 0
    const startDueSyncs: Activities['startDueSyncs'] = async () => {
      tries += 1
      if (tries < 4) throw new Error('the connection was refused')
      return { due: 0, started: 0, alreadyRunning: 0 }
    }
    await stage.play({ startDueSyncs }, async ({ client, ...options }) => {
      expect(await client.execute(WORKFLOW.dispatchSyncs, options)).toEqual({ due: 0, started: 0, alreadyRunning: 0 })
    })
    expect(tries).toBe(4)
  })
})
