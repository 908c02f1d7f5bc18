/** Each way to break a contract is found by the checks for it, and by no other. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Broken } from './broken-providers.ts'
import { BROKEN, LEAKS } from './broken-providers.ts'
import type { CheckResult, Suite } from './recorded-suite.ts'
import { recordedSuite } from './recorded-suite.ts'

let suite: Suite

beforeAll(async () => {
  suite = await recordedSuite()
}, 60_000)
afterAll(() => suite.close())

/** Of the contract that the provider breaks. */
const resultsOf = ({ contract, provider, fixtures, leavesOut = [] }: Broken, on = suite): Promise<CheckResult[]> =>
  on.of(
    () => new provider(),
    fixtures,
    (each, rule) => each === contract && !leavesOut.includes(rule),
  )

describe('a provider that', () => {
  it.each(BROKEN)(
    '$what: $contract',
    async (broken) => {
      const failed = (await resultsOf(broken)).filter(({ error }) => error !== null)
      expect(failed.map(({ rule }) => rule)).toEqual(broken.breaks)
      for (const { error } of failed) expect(error).toMatchObject({ code: 'ERR_ASSERTION' })
    },
    60_000,
  )
})

describe('a secret is found where a provider', () => {
  it.each(LEAKS)(
    '$what',
    async (broken) => {
      vi.spyOn(console, 'debug').mockImplementation(() => {})
      const alone = await recordedSuite()
      try {
        const failed = (await resultsOf(broken, alone)).filter(({ error }) => error !== null)
        expect(failed.map(({ rule }) => rule)).toEqual(broken.breaks)
        expect(failed.map(({ error }) => String(error)).join()).toContain('credentials.access_token')
      } finally {
        await alone.close()
      }
    },
    60_000,
  )
})
