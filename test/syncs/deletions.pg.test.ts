/** What is gone at the provider, told by two full listings in a row; 200 scripts of the same run in deletions.long.test.ts. */
import { expect, it } from 'vitest'
import { runDeletionScripts } from './deletion-scripts.ts'

it('random lives of a stream: no false deletion, none missed, and only changes are told', async () => {
  const { compared, told } = await runDeletionScripts(12)
  expect(compared).toBeGreaterThan(20)
  expect(told).toBeGreaterThan(0)
})
