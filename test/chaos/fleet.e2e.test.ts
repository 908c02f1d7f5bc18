/** The short form of fleet.long.test.ts. */
import { afterAll, beforeAll, it } from 'vitest'
import { workTogether } from './fleet-scenario.ts'
import type { FleetStack } from './fleet-stack.ts'
import { startFleet } from './fleet-stack.ts'

const ENTRIES = 1_000

let stack: FleetStack

beforeAll(async () => {
  stack = await startFleet({ entries: ENTRIES })
})

afterAll(() => stack?.stop())

it('two APIs and three workers share 600 webhooks and a sync of 1,000 items: nothing twice, nothing lost', async () => {
  await workTogether(stack, {
    deliveries: 600,
    ratePerSecond: 150,
    entries: ENTRIES,
    spreadsItems: false,
    replacesWorker: false,
    settledWithinSeconds: 60,
  })
})
