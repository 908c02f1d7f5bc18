/** One attempt: what the call is given, its time limit, and its outcome. Rule: docs/behaviour/requests.md, "Attempts". */

import type { Egress } from '../egress/guarded-fetch.ts'
import { InvalidArgumentException, RequestTimeout, SchemaDrift } from '../framework/errors.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { errorKind } from '../framework/thrown.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { classifiesFailures } from '../providers/contracts.ts'
import type { RequestContext } from '../providers/integration.ts'
import type { Answer } from './answer.ts'
import { answerOf, cutRequestId, decode, NO_ANSWER } from './answer.ts'
import type { PlannedCall } from './call.ts'
import { inCallSpan } from './call-span.ts'
import { classifyFailure, FailureClass } from './failure-class-rules.ts'
import { httpDateMs } from './retry-rules.ts'

export interface Attempt {
  /** From 1. */
  readonly number: number
  readonly durationMs: number
  readonly answer: Answer
  readonly outcome: Success | Failure
}

interface Success {
  readonly kind: 'succeeded'
  readonly value: unknown
  /** Decoded, before a schema has made something of it: what the response cache keeps. */
  readonly returned: unknown
  readonly body: unknown
}

export interface Failure {
  readonly kind: 'failed'
  readonly error: unknown
  readonly failureClass: FailureClass
  /** The answer that did not fit the schema. Else the error has it. */
  readonly body?: unknown
}

export function makeAttempt(call: PlannedCall, number: number): Promise<Attempt> {
  return inCallSpan(call, number, (egress) => attempted(call, number, egress))
}

async function attempted(call: PlannedCall, number: number, egress: Pick<Egress, 'fetch'>): Promise<Attempt> {
  const { framework, idempotencyKey, timeoutMs } = call
  const startedAt = performance.now()
  let seen = NO_ANSWER
  const reported: Reported = {}
  let timeout: Error | null = null
  const late = (): Error => {
    timeout = new RequestTimeout(call.shownEndpoint(), timeoutMs)
    return timeout
  }
  const perform = async (signal: AbortSignal): Promise<{ value: unknown; body: unknown }> => {
    const returned = await call.call(callContext(call, egress, { attempt: number, signal }, reported))
    // Before decoding: what a Response says of itself is known also when its body breaks off.
    seen = answerOf(returned, framework.clock.now())
    return decode(returned, { keyed: idempotencyKey !== null })
  }
  const finish = (answer: Answer, outcome: Attempt['outcome']): Attempt => {
    const durationMs = Math.round(performance.now() - startedAt)
    return { number, durationMs, answer: { ...answer, ...reported }, outcome }
  }
  try {
    const { value, body } = await withTimeLimit(timeoutMs / 1_000, late, perform, call.signal)
    return finish(seen, fitted(call, value, body))
  } catch (error) {
    const answer = error === timeout ? NO_ANSWER : answerOf(error, framework.clock.now())
    return finish(answer.statusCode === null ? seen : answer, {
      kind: 'failed',
      error,
      failureClass: classOf(call, error),
    })
  }
}

/** What a call says itself wins over what is read off its answer. Of one attempt: the next one begins empty. */
export type Reported = { -readonly [K in keyof Answer]?: Answer[K] }

/** What the host's function is given. Rule: docs/behaviour/requests.md, "The call's context". */
export function callContext(
  { idempotencyKey, secrets, observeDate }: Pick<PlannedCall, 'idempotencyKey' | 'secrets' | 'observeDate'>,
  egress: Pick<Egress, 'fetch'>,
  { attempt, signal }: Pick<RequestContext, 'attempt' | 'signal'>,
  reported: Reported,
): RequestContext {
  const send = (maxBytes?: number): typeof fetch => {
    const fetch = egress.fetch({
      followRedirects: idempotencyKey === null,
      signal,
      secrets,
      ...(maxBytes === undefined ? {} : { maxBytes }),
    })
    if (observeDate === undefined) return fetch
    return async (input, init) => {
      const response = await fetch(input, init)
      // RFC 9110, 6.6.1: when the server has made the answer.
      const date = new Date(httpDateMs(response.headers.get('date') ?? ''))
      if (!Number.isNaN(date.getTime())) observeDate(date)
      return response
    }
  }
  return {
    idempotencyKey,
    attempt,
    signal,
    fetch: (input, init) => send()(input, init),
    fetchUpTo: (maxBytes) => send(checkedBytes(maxBytes)),
    /** An invalid value is left out: it must not cost the row. */
    report({ statusCode, providerRequestId, rateLimitRemaining, rateLimitResetAt, retryAfterSeconds }) {
      if (isWithin(statusCode, 100, 599) && Number.isInteger(statusCode)) reported.statusCode = statusCode
      if (typeof providerRequestId === 'string') reported.providerRequestId = cutRequestId(providerRequestId)
      if (isWithin(rateLimitRemaining, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER))
        reported.rateLimitRemaining = rateLimitRemaining
      if (rateLimitResetAt instanceof Date && !Number.isNaN(rateLimitResetAt.getTime()))
        reported.rateLimitResetAt = rateLimitResetAt
      if (isWithin(retryAfterSeconds, 0, Number.MAX_SAFE_INTEGER)) reported.retryAfterSeconds = retryAfterSeconds
    },
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

/** The answer as the schema makes it. Never throws: whatever the schema does, the provider has answered. */
export function fitted(
  { schema, shownEndpoint }: Pick<PlannedCall, 'schema' | 'shownEndpoint'>,
  returned: unknown,
  body: unknown,
): Success | Failure {
  if (schema === undefined) return { kind: 'succeeded', value: returned, returned, body }
  const drift = (issues: SchemaDrift['issues']): Failure => {
    return { kind: 'failed', error: new SchemaDrift(shownEndpoint(), issues), failureClass: FailureClass.Unknown, body }
  }
  try {
    const parsed = schema.safeParse(returned)
    if (parsed.success) return { kind: 'succeeded', value: parsed.data, returned, body }
    return drift(
      parsed.error.issues.map(({ path, message }) => ({ path: path.map(String).join('.') || '(root)', message })),
    )
  } catch (fault) {
    // A transform() that throws, or an asynchronous refine(). Its kind only: the text may quote the answer.
    return drift([{ path: '(root)', message: `the schema threw ${errorKind(fault)}` }])
  }
}

function classOf(call: PlannedCall, error: unknown): FailureClass {
  const { signal } = call
  const callerAborted = signal?.aborted === true
  // The caller's own reason says nothing about the provider, whatever it looks like.
  if (callerAborted && error === signal.reason) return FailureClass.Unknown
  return classifyFailure({ error, callerAborted, providerVerdict: providerVerdict(call, error) })
}

interface UnfitVerdict {
  /** It gave no failure class. */
  onOther(verdict: unknown): void
  onThrow(fault: unknown): void
}

/** What the provider's own classifier says. Null, too, when it throws or gives no class: it must never hide the failure itself. */
export function verdictOf(
  provider: IntegrationProvider,
  error: unknown,
  unfit: UnfitVerdict = { onOther: () => {}, onThrow: () => {} },
): FailureClass | null {
  if (!classifiesFailures(provider)) return null
  try {
    const verdict = provider.classifyFailure(error)
    if (verdict === null || Object.values(FailureClass).includes(verdict)) return verdict
    unfit.onOther(verdict)
  } catch (fault) {
    unfit.onThrow(fault)
  }
  return null
}

/** As `verdictOf()`, with a warning where the verdict does not count. */
export function providerVerdict(
  {
    framework,
    provider,
    integration,
    secrets,
  }: Pick<PlannedCall, 'framework' | 'provider' | 'integration' | 'secrets'>,
  error: unknown,
): FailureClass | null {
  const logger = integrationLogger(framework, integration)
  return verdictOf(provider, error, {
    // Its type only: what it gave may be the failure itself, with all that is in it.
    onOther: (verdict) =>
      logger.warn(
        { event: 'request.unclassified', verdict: typeof verdict },
        'classifyFailure() gave no failure class; ignored',
      ),
    onThrow: (fault) =>
      logger.warn(
        { event: 'request.unclassified', error: redactedErrorLine(fault, secrets(), 500) },
        'classifyFailure() threw; ignored',
      ),
  })
}
