/** The outcome of an attempt, as its settlement writes it: redacted, then cut. Rule: docs/behaviour/requests.md, "The row". */

import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { currentOrigin } from '../framework/origin.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { redactText, storable } from '../framework/redaction.ts'
import { errorKind, field } from '../framework/thrown.ts'
import { isInsideAdaptersTokenWork } from '../oauth/token-work.ts'
import type { Integration } from '../providers/integration.ts'
import type { CallOutcome } from './admission/call-queries.ts'
import type { Ticket } from './admission/call-state.ts'
import { MAX_RESET_AHEAD_MS } from './answer.ts'
import type { Attempt } from './attempt.ts'
import type { PlannedCall } from './call.ts'
import { LONGEST_LIFETIME_MS } from './call.ts'
import { errorChain, firstStatus } from './failure-class-rules.ts'
import { longWaitMs } from './retry.ts'
import type { BodyRules } from './stored-body.ts'
import { bodyRules, cacheableText, storedBody } from './stored-body.ts'

const MAX_REQUEST_DATA_BYTES = 65_536
const MAX_ERROR_LENGTH = 2_000
/** The text columns are varchar(255). A longer text is cut, so that the row is not lost. */
const MAX_NAME_LENGTH = 255

/** Never throws: the call has been made, and its outcome must be written. */
export async function outcomeOf(
  call: PlannedCall,
  attempt: Attempt,
  ticket: Ticket,
  retryOf: number | null,
): Promise<CallOutcome> {
  const { framework, integration } = call
  const { retry } = framework.config
  const { answer, outcome } = attempt
  const secrets = call.secrets()
  const rules = bodyRules(call)
  const response = await responseOf(call, attempt, rules.response)
  const failureClass = outcome.kind === 'failed' ? outcome.failureClass : null
  const quietForMs = failureClass === 'throttle' ? retryAfterMs(attempt, retry.retry_after_max_seconds) : null
  return {
    owner: ticket.owner,
    generation: ticket.generation,
    class: failureClass,
    quietForMs,
    // A throttle with `Retry-After` says when to come again. Then the reset of an exhausted quota, which may be far, does not count.
    quietUntil: quietForMs === null || isCut(attempt, quietForMs) ? quietUntil(call, attempt) : null,
    row: {
      ...(await askedColumns(call, rules.request)),
      status_code: firstStatus([answer.statusCode]),
      provider_request_id:
        answer.providerRequestId === null ? null : named(redactText(answer.providerRequestId, secrets)),
      response_data: response.text,
      error: outcome.kind === 'failed' ? storable(storedError(framework, integration, outcome.error, secrets)) : null,
      failure_class: failureClass,
      duration_ms: attempt.durationMs,
      retry_of: retryOf,
      expires_in_ms: response.expiresInMs,
      request_hash: response.expiresInMs === null ? null : call.requestHash,
      origin: currentOrigin(framework.tables),
    },
  }
}

/** What the row says of the question. */
export async function askedColumns(call: PlannedCall, rules: BodyRules) {
  const { endpoint, method, options, idempotencyKey } = call
  return {
    endpoint: named(redactText(storable(endpoint), call.secrets())),
    method: named(method),
    request_data: await storedBody(call, options.data, rules, MAX_REQUEST_DATA_BYTES),
    idempotency_key: idempotencyKey === null ? null : storable(idempotencyKey),
    related_type: options.relatedTo === undefined ? null : named(options.relatedTo.type),
    related_id: options.relatedTo === undefined ? null : Number(options.relatedTo.id),
  }
}

/** Only an answer that can be served again exactly as it came expires. Any other is stored for people. */
export async function responseOf(
  call: PlannedCall,
  { outcome }: Attempt,
  rules: BodyRules,
): Promise<{ readonly text: string | null; readonly expiresInMs: number | null }> {
  const { cacheForMs, idempotencyKey, framework, options } = call
  // A moment does not move by the time that the call took.
  const leftMs =
    cacheForMs !== null && options.cacheFor instanceof Date
      ? Math.min(options.cacheFor.getTime() - framework.clock.now().getTime(), LONGEST_LIFETIME_MS)
      : cacheForMs
  if (outcome.kind === 'succeeded' && leftMs !== null && leftMs > 0 && !rules.isUnlogged) {
    const cacheable = await cacheableText(call, outcome, rules.paths)
    if (cacheable !== null) return { text: cacheable, expiresInMs: leftMs }
  }
  const body = outcome.kind === 'failed' ? (outcome.body ?? bodyOfError(outcome.error)) : outcome.body
  const isWhole = cacheForMs !== null || idempotencyKey !== null
  const maxBytes = isWhole ? null : framework.config.logging.max_response_bytes
  return { text: await storedBody(call, body, rules, maxBytes), expiresInMs: null }
}

/** Errors of calls for tokens. The call that needed the token throws them on, and nothing else says what they are. */
const ofTokenCalls = new WeakSet<object>()

/**
 * A failed call's error as a line to keep or to show. Of a call for tokens a foreign error's kind only: its text may quote
 * tokens that are not stored yet, so redaction does not know them.
 */
export function storedError(
  framework: Framework,
  { id }: Integration,
  error: unknown,
  secrets: readonly string[],
): string {
  const chain = errorChain(error)
  const isOfTokenCall = isInsideAdaptersTokenWork(framework, id)
  if (isOfTokenCall) for (const link of chain) ofTokenCalls.add(link)
  const isHidden = isOfTokenCall || chain.some((link) => ofTokenCalls.has(link))
  return isHidden && !isIntegrationsError(error)
    ? errorKind(error)
    : redactedErrorLine(error, secrets, MAX_ERROR_LENGTH)
}

/** The provider's answer, from the first error of the chain that has it: our `HttpError` or Octokit's. */
function bodyOfError(error: unknown): unknown {
  for (const link of errorChain(error)) {
    const body = field(link, 'body')
    if (body !== undefined) return body
    const data = field(field(link, 'response'), 'data')
    if (data !== undefined) return data
  }
  return null
}

/** A throttle's `Retry-After`, which only a provider can know. */
function retryAfterMs({ answer: { retryAfterSeconds } }: Attempt, maxSeconds: number): number | null {
  if (retryAfterSeconds === null || !(retryAfterSeconds > 0)) return null
  return Math.round(Math.min(retryAfterSeconds, maxSeconds) * 1_000)
}

/** Whether the wait is shorter than the provider has asked for. */
function isCut({ answer: { retryAfterSeconds } }: Attempt, waitMs: number): boolean {
  return retryAfterSeconds !== null && retryAfterSeconds * 1_000 > waitMs
}

/**
 * The reset of an exhausted quota. Where something remains, it is what the provider itself wants a throttled call to wait, if
 * that is too long to be slept through: GitHub's secondary limit. Without a reset the quota is that of another resource, or
 * not known. What a call reports is not trusted to be of its type.
 */
function quietUntil(call: PlannedCall, attempt: Attempt): number | null {
  const { rateLimitRemaining, rateLimitResetAt, retryAfterSeconds } = attempt.answer
  const at = rateLimitResetAt instanceof Date ? rateLimitResetAt.getTime() : Number.NaN
  if (Number.isNaN(at)) return null
  const nowMs = call.framework.clock.now().getTime()
  // Further ahead it is no moment in seconds, or comes from a wrong clock; a header's is left out at once.
  if (typeof rateLimitRemaining === 'number' && rateLimitRemaining <= 0)
    return at <= nowMs + MAX_RESET_AHEAD_MS ? at : null
  const waitMs = retryAfterSeconds === null ? longWaitMs(call, attempt) : null
  return waitMs === null ? null : nowMs + waitMs
}

function named(text: string): string {
  // In UTF-16 units it is never shorter than in characters.
  if (text.length <= MAX_NAME_LENGTH) return storable(text)
  return [...storable(text.slice(0, 2 * MAX_NAME_LENGTH))].slice(0, MAX_NAME_LENGTH).join('')
}
