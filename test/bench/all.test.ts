import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { foldBench } from '../../bench/all/fold.ts'
import { growthOf, repeatsOf, roundsOf } from '../../bench/all/plan.ts'
import type { Runner } from '../../bench/all/run.ts'
import { runAll, runTurns, TurnsFailed } from '../../bench/all/run.ts'
import type { State } from '../../bench/all/state.ts'
import { dropState, keepState, openState } from '../../bench/all/state.ts'
import type { Outcome, Printed } from '../../bench/frame.ts'
import { compare, jsonLine, target } from '../../bench/frame.ts'
import { plantedRound } from './planted-results.ts'

const FIVE = { rounds: 5, quick: false }

describe('the order of a run', () => {
  it('is round 1 of every bench, then round 2 of every bench', () => {
    const keys = roundsOf(['request', 'sync'], { rounds: 3, quick: false }).map(({ key }) => key)
    expect(keys).toEqual(['request 1', 'sync 1', 'request 2', 'sync 2', 'request 3', 'sync 3'])
  })

  it('gives a bench that fills its database for minutes one process with all rounds inside', () => {
    const dashboards = roundsOf(['request', 'dashboard'], FIVE).filter(({ bench }) => bench === 'dashboard')
    expect(dashboards).toEqual([{ key: 'dashboard', bench: 'dashboard', args: ['--rounds', '5'] }])
  })

  it('repeats three times in turn what missed a target', () => {
    const keys = repeatsOf(['request', 'sync'], FIVE).map(({ key }) => key)
    expect(keys.slice(0, 4)).toEqual(['request again 1', 'sync again 1', 'request again 2', 'sync again 2'])
    expect(keys).toHaveLength(6)
  })

  it('has a process for each point of a growth curve', () => {
    const turns = growthOf(FIVE)
    expect(turns.find(({ size }) => size === 10_000_000)?.args).toEqual(['--rounds', '5', '--size', '10000000'])
    expect(new Set(turns.map(({ key }) => key)).size).toBe(turns.length)
    expect(Math.max(...growthOf({ ...FIVE, quick: true }).map(({ size }) => size))).toBe(10_000)
  })
})

describe('folding rounds', () => {
  const ran = (...printed: Printed[]) => printed.map((one) => ({ printed: one, seconds: 60, load: 0.1 }))

  it('takes the median of each figure, and of the ratios of each round', () => {
    const bench = foldBench(ran(plantedRound(100, 100), plantedRound(300, 100), plantedRound(90, 300)))
    expect(bench.figures[0]).toEqual({ name: 'process: ours', unit: 'webhooks/s', value: 100, rounds: [100, 300, 90] })
    expect(bench.targets[0]).toMatchObject({ value: 1, rounds: [1, 3, 0.3], goal: 1, met: true, repeats: [] })
    expect(bench).toMatchObject({ seconds: 180, processes: 3, highestLoad: 0.1 })
  })

  it('lets the median of the repeats decide on a target that was missed, and on no other', () => {
    const missed = ran(plantedRound(90, 100), plantedRound(80, 100), plantedRound(120, 100))
    const again = ran(plantedRound(110, 100, 70), plantedRound(130, 100, 70), plantedRound(50, 100, 70))
    const [ratio, idle] = foldBench(missed, again).targets
    expect(ratio).toMatchObject({ rounds: [0.9, 0.8, 1.2], repeats: [1.1, 1.3, 0.5], value: 1.1, met: true })
    expect(idle).toMatchObject({ value: 20, repeats: [], met: true })
  })

  it('counts a target that depends on its peer when most rounds have it', () => {
    const without = { ...plantedRound(100, 100), targets: [] }
    expect(foldBench(ran(plantedRound(1, 1), plantedRound(1, 1), without)).targets).toHaveLength(2)
    expect(foldBench(ran(plantedRound(1, 1), without, without)).targets).toEqual([])
  })

  it('refuses a bench that has not run', () => {
    expect(() => foldBench([])).toThrow(RangeError)
  })

  it('reads what a bench prints', () => {
    const idle = target({ name: 'idle', value: 20, unit: 'ms' }, { direction: 'at most', value: 30 })
    const ours = { name: 'process: ours', value: 200, unit: 'webhooks/s' }
    const ratio = compare(ours, { ...ours, name: 'peer', value: 100 }, 'ratio', { direction: 'at least', value: 1 })
    const outcome: Outcome = { figures: [ours], comparisons: [ratio, idle] }
    const printed = JSON.parse(jsonLine('webhooks', 'a machine', outcome)) as Printed
    expect(foldBench(ran(printed)).targets.map(({ value, met }) => [value, met])).toEqual([
      [2, true],
      [20, true],
    ])
  })
})

describe('a run', () => {
  let folder = ''
  let file = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'bench-all-'))
    file = join(folder, 'state/all.json')
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  const began = new Date('2026-11-26T00:00:00Z')
  const runnerOf = (run: Runner['run']): Runner => ({ run, keep: (state) => keepState(file, state), say: () => {} })

  it('goes on where a killed one stopped', async () => {
    const first = openState(file, 'this', began)
    const started: string[] = []
    await new Promise<void>((killed) => {
      const run: Runner['run'] = ({ key }) => {
        started.push(key)
        if (started.length < 4) return Promise.resolve(plantedRound(100, 100))
        killed()
        return new Promise(() => {})
      }
      void runAll(['request', 'sync'], FIVE, first, runnerOf(run))
    })
    const rest: string[] = []
    const state = openState(file, 'this', new Date('2026-11-26T01:00:00Z'))
    const benches = await runAll(
      ['request', 'sync'],
      FIVE,
      state,
      runnerOf(async ({ key }) => {
        rest.push(key)
        return plantedRound(200, 100)
      }),
    )
    expect(started).toEqual(['request 1', 'sync 1', 'request 2', 'sync 2'])
    expect(rest).toEqual(['sync 2', 'request 3', 'sync 3', 'request 4', 'sync 4', 'request 5', 'sync 5'])
    expect(state.startedAt).toBe(began.toISOString())
    expect(benches[0]?.figures[0]?.rounds).toEqual([100, 100, 200, 200, 200])
  })

  it('refuses to go on with one that measured something else, until it is dropped', () => {
    keepState(file, { startedAt: began.toISOString(), of: '5 rounds, src 1234567', ran: {} })
    expect(() => openState(file, '5 rounds, src 7654321', began)).toThrow(/src 1234567.*src 7654321.*--fresh/)
    dropState(file)
    expect(openState(file, '5 rounds, src 7654321', began).ran).toEqual({})
  })

  it('repeats what missed a target, and nothing else', async () => {
    const turns: string[] = []
    const state: State = openState(file, 'this', began)
    const benches = await runAll(
      ['request', 'sync'],
      { rounds: 3, quick: false },
      state,
      runnerOf(async ({ key, bench }) => {
        turns.push(key)
        return plantedRound(bench === 'sync' && !key.includes('again') ? 50 : 150, 100)
      }),
    )
    expect(turns.slice(6)).toEqual(['sync again 1', 'sync again 2', 'sync again 3'])
    expect(benches[1]?.targets[0]).toMatchObject({ rounds: [0.5, 0.5, 0.5], repeats: [1.5, 1.5, 1.5], met: true })
  })

  it('tries a turn that failed once more at the end, and keeps the others when it fails again', async () => {
    const tried: string[] = []
    const state = openState(file, 'this', began)
    const turns = roundsOf(['request', 'sync'], { rounds: 1, quick: false })
    const run: Runner['run'] = async ({ key }) => {
      tried.push(key)
      if (key === 'request 1') throw new Error('no port is free')
      return plantedRound(1, 1)
    }
    const failure: unknown = await runTurns(turns, state, runnerOf(run)).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(TurnsFailed)
    expect(String(failure)).toContain('request 1: no port is free')
    expect(tried).toEqual(['request 1', 'sync 1', 'request 1'])
    expect(Object.keys(openState(file, 'this', began).ran)).toEqual(['sync 1'])
  })
})
