/** What a call is given, and what it reports. Rule: docs/behaviour/requests.md, "The call's context". */

import type { Egress } from '../egress/guarded-fetch.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { RequestContext } from '../providers/integration.ts'
import type { Answer } from './answer.ts'
import { cutRequestId } from './answer.ts'

/** Of one attempt: the next one begins empty. */
export interface Reported {
  readonly context: RequestContext
  /** What was reported wins over what was read. */
  over(answer: Answer): Answer
}

export function callContext(
  egress: Pick<Egress, 'fetch'>,
  given: Pick<RequestContext, 'idempotencyKey' | 'attempt' | 'signal'>,
  secrets: () => readonly string[],
  observeDate?: (date: Date) => void,
): Reported {
  const reported: { -readonly [K in keyof Answer]?: Answer[K] } = {}
  const isKeyed = given.idempotencyKey !== null
  const send = (maxBytes?: number): typeof fetch => {
    const fetch = egress.fetch({
      followRedirects: !isKeyed,
      signal: given.signal,
      secrets,
      ...(maxBytes === undefined ? {} : { maxBytes }),
    })
    if (observeDate === undefined) return fetch
    return async (input, init) => {
      const response = await fetch(input, init)
      // RFC 9110, 6.6.1: when the server has made the answer.
      const date = new Date(response.headers.get('date') ?? Number.NaN)
      if (!Number.isNaN(date.getTime())) observeDate(date)
      return response
    }
  }
  return {
    context: {
      ...given,
      fetch: (input, init) => send()(input, init),
      fetchUpTo: (maxBytes) => send(checkedBytes(maxBytes)),
      report,
    },
    over: (answer) => ({ ...answer, ...reported }),
  }

  /** A value that is none is left out: it must not cost the row. */
  function report(meta: Parameters<RequestContext['report']>[0]): void {
    const { statusCode, providerRequestId, rateLimitRemaining, rateLimitResetAt, retryAfterSeconds } = meta
    if (isWithin(statusCode, 100, 599) && Number.isInteger(statusCode)) reported.statusCode = statusCode
    if (typeof providerRequestId === 'string') reported.providerRequestId = cutRequestId(providerRequestId)
    if (isWithin(rateLimitRemaining, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER))
      reported.rateLimitRemaining = rateLimitRemaining
    if (rateLimitResetAt instanceof Date && !Number.isNaN(rateLimitResetAt.getTime()))
      reported.rateLimitResetAt = rateLimitResetAt
    if (isWithin(retryAfterSeconds, 0, Number.MAX_SAFE_INTEGER)) reported.retryAfterSeconds = retryAfterSeconds
  }
}

function checkedBytes(maxBytes: number): number {
  if (!Number.isSafeInteger(maxBytes) || maxBytes < 1)
    throw new InvalidArgumentException('maxBytes', `a whole number of at least 1 is allowed, ${maxBytes} was given`)
  return maxBytes
}

function isWithin(value: number | undefined, min: number, max: number): value is number {
  return typeof value === 'number' && value >= min && value <= max
}
