/** How work spreads over three workers; it prints the figures of docs/behaviour/workers.md, "How work spreads". */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Load } from './fleet-spread.ts'
import { measureSpread } from './fleet-spread.ts'
import type { SpreadStack } from './fleet-spread-stack.ts'
import { startSpreadStack } from './fleet-spread-stack.ts'

let stack: SpreadStack

beforeAll(async () => {
  stack = await startSpreadStack()
})

afterAll(() => stack?.stop())

it.each<Load>([
  { of: 'items', integrations: 1, rows: 2_000, work: 'computes' },
  { of: 'items', integrations: 1, rows: 5_000, work: 'waits' },
  { of: 'items', integrations: 12, rows: 100, work: 'computes' },
  { of: 'webhooks', integrations: 1, rows: 2_000, work: 'computes' },
  { of: 'webhooks', integrations: 1, rows: 3_000, work: 'waits' },
  { of: 'webhooks', integrations: 30, rows: 40, work: 'computes' },
])(
  'each of three workers has its share of $of: $integrations x $rows, whose listener or handler $work',
  async (load) => {
    const { shares, seconds } = await measureSpread(stack, load)
    console.log(
      `${load.integrations} x ${load.rows} ${load.of}, ${load.work}: ${Object.values(shares).join(' + ')} in ${seconds} s`,
    )
    const rows = load.integrations * load.rows
    expect(Object.values(shares).reduce((sum, share) => sum + share, 0)).toBe(rows)
    for (const [name, share] of Object.entries(shares))
      expect(share, `${name}: ${JSON.stringify(shares)}`).toBeGreaterThan(0)
  },
)
