/** What the suite finds in broken providers. Their listings: broken-listings.test.ts. */
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { BROKEN, LEAKS, UNUSUAL } from './broken-providers.ts'
import { BROKEN_SUBSCRIPTIONS, UNUSUAL_SUBSCRIPTIONS } from './broken-subscriptions.ts'
import { expectFound } from './found-by-the-suite.ts'
import type { Suite } from './recorded-suite.ts'
import { recordedSuite } from './recorded-suite.ts'

let suite: Suite

beforeAll(async () => {
  suite = await recordedSuite()
}, 60_000)
afterAll(() => suite.close())

describe('a provider that', () => {
  it.each([...BROKEN, ...BROKEN_SUBSCRIPTIONS])('$what: $contract', (broken) => expectFound(suite, broken), 60_000)
})

describe('nothing is found where a provider', () => {
  it.each([...UNUSUAL, ...UNUSUAL_SUBSCRIPTIONS])('$what: $contract', (unusual) => expectFound(suite, unusual), 60_000)
})

describe('a secret is found where a provider', () => {
  it.each(LEAKS)(
    '$what',
    async (broken) => {
      vi.spyOn(console, 'debug').mockImplementation(() => {})
      const alone = await recordedSuite()
      try {
        await expectFound(alone, { ...broken, says: [/credentials\.access_token/] })
      } finally {
        await alone.close()
      }
    },
    60_000,
  )
})
