/** Failures of calls, `classifyFailure()`, `isRetryable()`, `retryDelayMs()`. Rule: docs/behaviour/requests.md, "Failure classes" and "Retries". */
import assert from 'node:assert/strict'
import { verdictOf } from '../../calls/attempt.ts'
import { classifyFailure, FailureClass } from '../../calls/failure-class-rules.ts'
import type { ClassifiesFailures, CustomizesRetry, IntegrationProvider } from '../../providers/contracts.ts'
import { classifiesFailures, customizesRetry } from '../../providers/contracts.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import { given, wordsFor } from './outcome-checks.ts'
import { answering } from './played-faults.ts'
import { round } from './traces/round.ts'

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

/** Those on which something depends: the other classes are neither retried nor counted. */
const ANSWERED = [
  [429, FailureClass.Throttle],
  [500, FailureClass.Upstream],
] as const

/** Behind the chapters that need a good day: what could not be fetched in it, such as public keys, may not be asked for again soon. */
export const recognitionChapter = (): Chapter => ({ contract: 'failures of its calls', checks: [RECOGNISED] })

/** What is answered by the call itself keeps its status: only code that throws in its place can hide it. */
const RECOGNISED: Check = {
  name: 'can be recognised: a 429 as throttle, a 500 as upstream, or as classifyFailure() says',
  async run(bench) {
    const wrong: string[] = []
    for (const [status, expected] of ANSWERED)
      for (const { what, error } of await thrownAfter(bench, status)) {
        const providerVerdict = verdictOf(bench.provider, error)
        const found = classifyFailure({ error, callerAborted: false, providerVerdict })
        if (providerVerdict === null && found !== expected)
          wrong.push(`after a ${status} ${what} ${wordsFor({ kind: 'threw', error })}, whose class is ${found}`)
      }
    const told = [...new Set(wrong)]
    assert.deepEqual(
      told,
      [],
      `what a call throws must have the status that was answered, or nothing waits for a limit, is tried again, or counts for health and circuit breaker; ${told.join('; ')}. Give the response back, or throw an error with its \`status\`, or with the one that has it as its \`cause\`.`,
    )
  },
}

/** What the provider's calls threw in all that it does, while each request was answered so. */
async function thrownAfter(bench: Bench, status: number): Promise<readonly { what: string; error: unknown }[]> {
  const before = bench.attempts.all.length
  const integration = await bench.create()
  // An open circuit would refuse the later ones of many failures before they are calls.
  await integration.overrideCircuit('disabled')
  await bench.answeredBy(answering(status), () => bench.withoutRetries(() => round(bench, integration)))
  return bench.attempts.all
    .slice(before)
    .flatMap(({ what, calls, thrown }) => (calls > 0 && thrown !== undefined ? [{ what, error: thrown.error }] : []))
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

/**
 * What can be thrown besides the errors of a provider's own API. A value that cannot be read, such as one with a getter that throws,
 * is left out: the framework takes a judgement that throws for none, and no author should have to guard every field.
 */
const ODD_ERRORS: readonly (readonly [what: string, make: () => unknown])[] = [
  ['undefined', () => undefined],
  ['null', () => null],
  ['a text', () => 'no luck'],
  ['a number', () => 429],
  ['an empty object', () => ({})],
  ['an ordinary error', () => new Error('no luck')],
  ['an aborted call', () => new DOMException('This operation was aborted', 'AbortError')],
  ['a connection that broke', () => new TypeError('fetch failed', { cause: withFields({ code: 'ECONNRESET' }) })],
  ['an error whose message is missing', () => withFields({ message: undefined })],
  ['an error whose message is an object', () => withFields({ message: { a: 1 } })],
  ['an error with a status that is a text', () => withFields({ status: '429', response: null })],
  ['an error with an answer without headers', () => withFields({ status: 403, response: {} })],
  ['an error with headers that are none', () => withFields({ status: 429, headers: 7, response: { headers: null } })],
  [
    'an error whose headers hold no numbers',
    () => withFields({ status: 429, response: { headers: { 'retry-after': 'soon', 'x-ratelimit-reset': 'never' } } }),
  ],
  [
    'an error that asks to come back in the past',
    () => withFields({ status: 429, response: { headers: { 'retry-after': '-60', date: NOW.toUTCString() } } }),
  ],
  ['an error that is its own cause', ownCause],
]

function withFields(fields: Record<string, unknown>): Error {
  const error = new Error('no luck')
  for (const [field, value] of Object.entries(fields)) Object.defineProperty(error, field, { value, enumerable: true })
  return error
}

function ownCause(): Error {
  const error = new Error('no luck')
  error.cause = error
  return error
}
