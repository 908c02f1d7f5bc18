/** The simulator itself. */
import { describe, expect, it } from 'vitest'
import type { Played } from '../../../src/testing/index.ts'
import { replay, simulate } from '../../../src/testing/index.ts'
import { FAULT_KINDS, planOf } from '../../../src/testing/simulation/plan.ts'
import { planText, testFileText } from '../../../src/testing/simulation/plan-text.ts'
import { Random } from '../../../src/testing/simulation/random.ts'
import { shrunk } from '../../../src/testing/simulation/shrink.ts'
import { Simulator } from '../../../src/testing/simulation/simulator.ts'
import { chargingHost } from './charging-host.ts'
import { deliveredMirror, mirrored, syncedMirror } from './mirror-host.ts'
import { queuedHost } from './queued-host.ts'
import { guardedProvider } from './shop-provider.ts'

const material = { changes: ['place', 'remove'], runs: ['sync', 'webhooks'], faults: FAULT_KINDS }
const PLAYED: Played = { broken: [], story: [], hash: '' }

describe('a seed', () => {
  it('gives the same plan each time, and another seed another one', () => {
    expect(planOf(7, material)).toEqual(planOf(7, material))
    expect(planOf(7, material)).not.toEqual(planOf(8, material))
  })

  it('brings each kind of step and fault sooner or later', () => {
    const plans = Array.from({ length: 300 }, (_, seed) => JSON.stringify(planOf(seed + 1, material))).join()
    for (const word of ['crashAfter', 'crashAfterStatement', 'throttled', 'an error after it worked', 'no connection'])
      expect(plans).toContain(`"${word}"`)
    for (const word of [
      'a cut body',
      'a slow answer',
      'twice',
      'lateSeconds',
      'newestFirst',
      'skewSeconds',
      'afterCall',
      'afterActivity',
    ])
      expect(plans).toContain(`"${word}"`)
  })

  it.each([
    ['synced', syncedMirror()],
    ['delivered', deliveredMirror()],
    ['mirrored', mirrored()],
    ['charging', chargingHost()],
    ['queued', queuedHost()],
  ] as const)('breaks nothing of the %s host: 20 seeds', async (_, host) => {
    const hashes: string[] = []
    const { seeds, failure } = await simulate(host, { seeds: 20, onSeed: (_seed, { hash }) => hashes.push(hash) })
    expect({ seeds, failure }).toEqual({ seeds: 20, failure: null })
    expect(new Set(hashes).size).toBeGreaterThan(10)
  })

  it('leaves the clock and the random numbers of the machine as they were', async () => {
    const before = [Date, Math.random, setTimeout]
    await simulate(deliveredMirror(), { seeds: 1 })
    expect([Date, Math.random, setTimeout]).toEqual(before)
    expect(Math.abs(Date.now() - performance.timeOrigin - performance.now())).toBeLessThan(60_000)
  })

  it.each([0, -1, 1.5, Number.NaN])('%d is refused', async (seed) => {
    await expect(simulate(deliveredMirror(), { seed })).rejects.toMatchObject({ code: 'invalid_argument' })
  })
})

it('what the model throws ends the simulation with that error', async () => {
  const scenario = deliveredMirror()
  const outside = () => ({
    api: () => Response.json({}),
    changes: {
      place: () => {
        throw new Error('a mistake in the model')
      },
    },
  })
  await expect(simulate({ ...scenario, outside } as never, { seeds: 5 })).rejects.toThrow('a mistake in the model')
})

it('a job that stands still ends the simulation, also after the process has died', async () => {
  const simulator = await Simulator.open({ ...deliveredMirror(), jobs: { hang: () => new Promise(() => {}) } })
  const steps = [{ run: 'webhooks', faults: [{ crashAfterStatement: 1 }] }, { run: 'hang' }]
  await expect(simulator.play({ steps }, 3_000)).rejects.toMatchObject({
    code: 'simulation_stuck',
    story: [expect.stringContaining('the host dies'), expect.stringContaining('the host starts again')],
  })
  await simulator.close()
})

it('a job that still fails when nothing goes wrong any more is what breaks, with its error', async () => {
  const failing = () => {
    throw new Error('a bug of the job')
  }
  await expect(replay({ ...deliveredMirror(), jobs: { failing } }, { steps: [] })).rejects.toThrow(
    /nothing is left undone: the job failing failed: a bug of the job/,
  )
  const { broken } = await replay({ ...deliveredMirror(), jobs: { failing }, mayFail: true }, { steps: [] })
  expect(broken).toEqual([])
})

describe('the cache', () => {
  const guarded = {
    ...deliveredMirror('older overwrites newer'),
    host: () => ({ providers: { shop: guardedProvider() } }),
  }
  const older = { change: 'place', seed: 1, delivery: { lateSeconds: 600 } }
  const newer = { change: 'rename', seed: 3 }

  it('outlives the process, as the table does: an older delivery is stale after a crash, too', async () => {
    const dies = { run: 'webhooks', faults: [{ crashAfterStatement: 1 }] }
    const { broken, story } = await replay(guarded, {
      steps: [older, newer, { run: 'webhooks' }, dies, { afterSeconds: 700, run: 'webhooks' }],
    })
    expect(broken).toEqual([])
    expect(story.filter((line) => /host dies|webhook/.test(line))).toHaveLength(3)
  })

  it('keeps the lock of a dead process: another one waits for it by the clock, and fails as in production', async () => {
    const dies = { run: 'webhooks', faults: [{ crashAfter: 1 }] }
    const soon = { ...older, delivery: { lateSeconds: 5 } }
    const plan = { steps: [soon, newer, dies, { afterSeconds: 6, run: 'webhooks' }] }
    const startedAt = performance.now()
    const [{ story, broken }, again] = [await replay(guarded, plan), await replay(guarded, plan)]
    expect(broken).toEqual([])
    expect(story).toContainEqual('03-01 12:00:36  webhook 2: failed')
    expect(again.story).toEqual(story)
    expect(performance.now() - startedAt).toBeLessThan(30_000)
  })
})

describe('shrinking', () => {
  it('keeps what the failure needs, and nothing else', async () => {
    const plan = {
      skewSeconds: 20,
      steps: [
        { change: 'place', seed: 1 },
        { afterSeconds: 5, change: 'place', seed: 2, delivery: { twice: true as const } },
        { run: 'webhooks' },
        {
          afterSeconds: 60,
          run: 'sync',
          newestFirst: true as const,
          faults: [{ crashAfter: 3 }, { call: 1, gets: 'throttled' as const }],
        },
        { change: 'remove', seed: 3 },
      ],
    }
    const needs = (text: string) => text.includes('crashAfter') && text.includes('"seed":2')
    const { plan: small } = await shrunk(plan, PLAYED, async (smaller) =>
      needs(JSON.stringify(smaller)) ? PLAYED : null,
    )
    expect(small).toEqual({
      steps: [
        { change: 'place', seed: 2 },
        { run: 'sync', faults: [{ crashAfter: 3 }] },
      ],
    })
  })
})

it('a plan is written down as source text', () => {
  const plan = {
    skewSeconds: -20,
    steps: [
      { change: "o'clock", seed: 4 },
      { run: 'sync', faults: [{ crashAfter: 2 }] },
    ],
  }
  expect(planText(plan)).toBe(`{
  skewSeconds: -20,
  steps: [
    { change: 'o\\'clock', seed: 4 },
    { run: 'sync', faults: [{ crashAfter: 2 }] },
  ],
}`)
  expect(testFileText({ plan, seed: 9, broken: ['a "b"'], scenario: './shop.ts' })).toContain(
    `it('a "b"', async () => {`,
  )
})

it('numbers follow from the seed, in their range', () => {
  const random = new Random(3)
  const numbers = Array.from({ length: 1_000 }, () => random.int(2, 5))
  expect(new Set(numbers)).toEqual(new Set([2, 3, 4, 5]))
  expect(() => random.pick([])).toThrow('an empty one was given')
})
