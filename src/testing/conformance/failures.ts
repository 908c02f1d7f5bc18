/** `classifyFailure()`, `isRetryable()`, `retryDelayMs()`. Rule: docs/behaviour/requests.md, "Failure classes" and "Retries". */
import assert from 'node:assert/strict'
import { FailureClass } from '../../core/failure-class.ts'
import type { ClassifiesFailures, CustomizesRetry, IntegrationProvider } from '../../providers/provider.ts'
import { classifiesFailures, customizesRetry } from '../../providers/provider.ts'
import type { Chapter, Check } from './check.ts'
import { ODD_ERRORS } from './odd-errors.ts'
import { given, wordsFor } from './outcome.ts'

const CLASSES: readonly unknown[] = [...Object.values(FailureClass), null]
const NOW = new Date('2026-01-31T12:00:00Z')
const WAIT = { now: NOW, longestSeconds: 600 }

export function failureChapters(provider: IntegrationProvider): Chapter[] {
  const chapters: Chapter[] = []
  if (classifiesFailures(provider)) chapters.push({ contract: 'ClassifiesFailures', checks: [CLASSIFICATION] })
  if (customizesRetry(provider)) {
    const checks: Check[] = []
    if (provider.isRetryable !== undefined) checks.push(VERDICT)
    if (provider.retryDelayMs !== undefined) checks.push(DELAY)
    chapters.push({ contract: 'CustomizesRetry', checks })
  }
  return chapters
}

const CLASSIFICATION = judged(
  'classifyFailure() answers upstream, throttle, client, unknown or null, whatever was thrown',
  (provider, error) => (provider as ClassifiesFailures).classifyFailure(error),
  (answer) => CLASSES.includes(answer),
)

const VERDICT = judged(
  'isRetryable() answers true, false or null, whatever was thrown',
  (provider, error) => (provider as CustomizesRetry).isRetryable?.(error, WAIT),
  (answer) => answer === null || typeof answer === 'boolean',
)

const DELAY = judged(
  'retryDelayMs() answers a number of 0 or more, or null, whatever was thrown',
  (provider, error) => (provider as CustomizesRetry).retryDelayMs?.(error, 1, NOW),
  (answer) => answer === null || (typeof answer === 'number' && Number.isFinite(answer) && answer >= 0),
)

function judged(
  name: string,
  ask: (provider: IntegrationProvider, error: unknown) => unknown,
  isAllowed: (answer: unknown) => boolean,
): Check {
  return {
    name,
    async run({ provider }) {
      const wrong: string[] = []
      for (const [what, make] of ODD_ERRORS) {
        const outcome = given(() => ask(provider, make()))
        if (outcome.kind === 'threw' || !isAllowed(outcome.value)) wrong.push(`for ${what} it ${wordsFor(outcome)}`)
      }
      assert.deepEqual(wrong, [], `${name}; ${wrong.join('; ')}`)
    },
  }
}
