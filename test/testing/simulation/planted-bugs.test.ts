/** Bugs of the kind that integrations have: each breaks its plan, and the mended host does not. The search: planted-bugs.long.test.ts. */
import { describe, expect, it } from 'vitest'
import { replay } from '../../../src/testing/index.ts'
import { Simulator } from '../../../src/testing/simulation/simulator.ts'
import { chargingHost } from './charging-host.ts'
import { deliveredMirror, mirrored, syncedMirror } from './mirror-host.ts'
import { PLANTED_BUGS } from './planted-bugs.ts'
import { queuedHost } from './queued-host.ts'

describe('a planted bug', () => {
  it.each(PLANTED_BUGS)(
    '$name breaks its invariant, each time with the same story',
    async ({ host, plan, invariant }) => {
      const simulator = await Simulator.open(host)
      const [first, second] = [await simulator.play(plan), await simulator.play(plan)]
      await simulator.close()
      expect(first.broken.map(({ name }) => name)).toContain(invariant)
      expect(second.story).toEqual(first.story)
      expect(second.hash).toBe(first.hash)
    },
  )

  it('is told with its story and its plan', async () => {
    const [{ host, plan }] = PLANTED_BUGS as [(typeof PLANTED_BUGS)[number]]
    await expect(replay(host, plan)).rejects.toMatchObject({
      code: 'simulation_failed',
      message: expect.stringMatching(/the mirror equals the shop.*outside: place.*{ change: 'rename', seed: 3 },/s),
    })
  })
})

it.each([syncedMirror(), deliveredMirror(), mirrored(), chargingHost(), queuedHost()])(
  'the mended host %# survives the plans',
  async (mended) => {
    const simulator = await Simulator.open(mended)
    for (const { plan, name } of PLANTED_BUGS) {
      const fits = plan.steps.every((step) => 'change' in step || simulator.material.runs.includes(step.run))
      if (fits) expect([name, (await simulator.play(plan)).broken]).toEqual([name, []])
    }
    await simulator.close()
  },
)
