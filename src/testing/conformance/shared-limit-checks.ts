/** `rateLimitScope()`. Rule: docs/behaviour/shared-budgets.md. */
import assert from 'node:assert/strict'
import { RateLimit } from '../../calls/rate-limit-rules.ts'
import type { SharesRateLimit } from '../../providers/contracts.ts'
import type { Chapter } from './conformance-check.ts'
import { given, shown, wordsFor } from './outcome-checks.ts'

export function sharedLimitChapter(): Chapter {
  return {
    contract: 'SharesRateLimit',
    checks: [
      {
        name: 'rateLimitScope() gives a key and a RateLimit, or null, at once',
        async run(bench) {
          const integration = await bench.create()
          const provider = bench.subject.provider() as SharesRateLimit
          const outcome = given((): unknown => provider.rateLimitScope(integration))
          assert(outcome.kind === 'gave', `rateLimitScope() must not throw; it ${wordsFor(outcome)}`)
          if (outcome.value === null) return
          const { key, limit } = Object(outcome.value) as { key?: unknown; limit?: unknown }
          assert(
            typeof key === 'string' && key !== '' && limit instanceof RateLimit,
            `rateLimitScope() must give {key, limit}, a text that is not empty and a RateLimit, or null; it gave ${shown(outcome.value)}`,
          )
        },
      },
      {
        name: 'rateLimitScope() names the same budget each time: it looks at the integration alone',
        async run(bench) {
          const integration = await bench.create()
          const provider = bench.subject.provider() as SharesRateLimit
          const [first, second] = [provider.rateLimitScope(integration), provider.rateLimitScope(integration)]
          assert.equal(first?.key, second?.key, 'rateLimitScope() gave two keys for the same integration')
        },
      },
      {
        name: 'isSharedThrottle() is true or false for any error',
        async run(bench) {
          const provider = bench.subject.provider() as SharesRateLimit
          const odd = [new Error('odd'), 'text', null, undefined, { status: 429 }]
          for (const error of odd) {
            const outcome = given((): unknown => provider.isSharedThrottle?.(error) ?? false)
            const isBoolean = outcome.kind === 'gave' && typeof outcome.value === 'boolean'
            assert(
              isBoolean,
              `isSharedThrottle() must give true or false, also for ${shown(error)}; it ${wordsFor(outcome)}`,
            )
          }
        },
      },
    ],
  }
}
