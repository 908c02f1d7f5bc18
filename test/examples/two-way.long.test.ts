/** The same with 10,000 edits. */
import { expect, it, onTestFinished } from 'vitest'
import { editAtRandom } from './random-edits.ts'
import { startWorld } from './two-way-world.ts'

it('settles after 10,000 random edits on both sides, and no foreign change is suppressed', async () => {
  const world = await startWorld()
  onTestFinished(() => world.close())
  const seen = await editAtRandom(world, { edits: 10_000, records: 100, burst: 300, seed: 23 })
  console.info(JSON.stringify(seen))
  expect(seen.recognised).toBeGreaterThan(0)
  expect(seen.rewritten).toBeGreaterThan(0)
}, 3_600_000)
