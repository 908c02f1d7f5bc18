/** A fleet at full size, one of whose workers is replaced in the middle. */
import { afterAll, beforeAll, it } from 'vitest'
import { workTogether } from './fleet-scenario.ts'
import type { FleetStack } from './fleet-stack.ts'
import { startFleet } from './fleet-stack.ts'

const ENTRIES = 10_000
const MINUTE_MS = 60_000

let stack: FleetStack

beforeAll(async () => {
  stack = await startFleet({ entries: ENTRIES })
})

afterAll(() => stack?.stop())

it(
  'two APIs and three workers share 5,000 webhooks and a sync of 10,000 items, and one worker is replaced: nothing twice, nothing lost',
  async () => {
    await workTogether(stack, {
      deliveries: 5_000,
      ratePerSecond: 150,
      entries: ENTRIES,
      spreadsItems: true,
      replacesWorker: true,
      settledWithinSeconds: 180,
    })
  },
  10 * MINUTE_MS,
)
