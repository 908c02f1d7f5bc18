/** Whether other work around a failed call tries again: what a provider's classifier says counts only if it is a class. */
import { describe, expect, it } from 'vitest'
import { isFinalFault } from '../../src/calls/retry.ts'
import { HttpError, UnknownProvider } from '../../src/framework/errors.ts'
import type { ClassifiesFailures } from '../../src/providers/contracts.ts'

const status = (code: number) => new HttpError(code, new Headers(), null)
const classifier = (classifyFailure: (error: unknown) => unknown) => ({ classifyFailure }) as ClassifiesFailures
/** Written for another client's errors. */
const throwing = classifier((error) => (error as { response: { status: number } }).response.status)

describe('a fault', () => {
  it.each([
    ['a 401', status(401), null, true],
    ['a 503', status(503), null, false],
    ['a provider that is not registered', new UnknownProvider('acme', []), null, true],
    ['a 503 that the provider blames on the caller', status(503), classifier(() => 'client'), true],
    ['a 401 that the provider takes on itself', status(401), classifier(() => 'upstream'), false],
    ['a 401 that the classifier throws at', status(401), throwing, true],
    ['a lost connection that it throws at', new TypeError('fetch failed'), throwing, false],
    ['a 401 for which it gives no class', status(401), classifier(() => 'fatal'), true],
    ['a 401 for which it gives nothing', status(401), classifier(() => undefined), true],
  ])('%s: %#', (_, error, provider, isFinal) => {
    expect(isFinalFault(error, provider)).toBe(isFinal)
  })
})
