/** How the rows of a claim run and are settled. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { Batch } from '../../src/claims/batch.ts'
import { runBatch } from '../../src/claims/batch.ts'

const silentLogger = { debug() {}, info() {}, warn() {}, error() {} }
const rows = Array.from({ length: 200 }, (_, index) => index)

function batch(more: Partial<Batch<number, null, number>>): Batch<number, null, number> {
  return {
    rows,
    concurrency: 10,
    startBy: performance.now() + 30_000,
    signal: new AbortController().signal,
    logger: silentLogger,
    prepare: async () => null,
    run: async (row) => row,
    settle: async () => {},
    handBack: async () => {},
    ...more,
  }
}

it('settles 50 rows first, and then with each statement all that ended while the one before ran', async () => {
  const sets: number[] = []
  let runs = 0
  const run = async (row: number) => {
    runs += 1
    return row
  }
  // The first statement takes until the last row has run.
  const settle = async (outcomes: readonly number[]) => {
    sets.push(outcomes.length)
    while (runs < rows.length) await nextTurn()
  }
  expect(await runBatch(batch({ run, settle }))).toBe(200)
  expect(sets).toEqual([50, 150])
})

it('lets other work in while handlers run that wait for nothing', async () => {
  let turns = 0
  let isOver = false
  const others = (async () => {
    while (!isOver) {
      await nextTurn()
      turns += 1
    }
  })()
  const run = async (row: number) => {
    for (const until = performance.now() + 0.5; performance.now() < until; );
    return row
  }
  await runBatch(batch({ run }))
  isOver = true
  await others
  // A hundred milliseconds of work, and a turn after each five of them.
  expect(turns).toBeGreaterThan(10)
})
