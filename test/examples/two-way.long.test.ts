/** The same with 10,000 edits; `TWO_WAY_EDITS=2000` makes it shorter. */
import { expect, it, onTestFinished } from 'vitest'
import { editAtRandom } from './random-edits.ts'
import { startWorld } from './two-way-world.ts'

const EDITS = Number(process.env.TWO_WAY_EDITS ?? 10_000)

it('settles after 10,000 random edits on both sides, and no foreign change is suppressed', async () => {
  const world = await startWorld()
  onTestFinished(() => world.close())
  const seen = await editAtRandom(world, { edits: EDITS, records: 100, burst: 300, seed: 23 })
  console.info(JSON.stringify(seen))
  expect(seen.recognised.github).toBeGreaterThan(0)
  expect(seen.recognised.deskline).toBeGreaterThan(0)
  expect(seen.rewritten).toBeGreaterThan(0)
}, 3_600_000)
