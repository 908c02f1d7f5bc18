/** The same as deletions.pg.test.ts, for longer. */
import { expect, it } from 'vitest'
import { runDeletionScripts } from './deletion-scripts.ts'

it('200 random lives of a stream: no false deletion, none missed, and only changes are told', async () => {
  const counted = await runDeletionScripts(200)
  console.log(counted)
  expect(counted.compared).toBeGreaterThan(500)
  expect(counted.told).toBeGreaterThan(200)
  expect(counted.confirmed).toBeGreaterThan(0)
}, 1_200_000)
