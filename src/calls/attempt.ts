/** One attempt: the call, its deadline, and what it came to. Rule: docs/behaviour/requests.md, "Attempts". */

import type { Egress } from '../egress/guarded-fetch.ts'
import type { Framework, OutboundCall } from '../framework/context.ts'
import { RequestTimeout, SchemaDrift } from '../framework/errors.ts'
import { knownSecrets } from '../framework/known-secrets.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { classifiesFailures } from '../providers/contracts.ts'
import type { Answer } from './answer.ts'
import { answerOf, decode, NO_ANSWER } from './answer.ts'
import { callContext } from './call-context.ts'
import type { CallPlan } from './call-options.ts'
import { inCallSpan } from './call-span.ts'
import { Deadline } from './deadline.ts'
import { classifyFailure, FailureClass } from './failure-class-rules.ts'

/** Everything that one attempt came to. */
export interface Attempt {
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

interface Failure {
  readonly kind: 'failed'
  readonly error: unknown
  readonly failureClass: FailureClass
  /** The answer that did not fit; else it is read off the error. */
  readonly body?: unknown
}

export function makeAttempt(
  framework: Framework,
  provider: IntegrationProvider,
  outbound: OutboundCall<unknown>,
  plan: CallPlan,
  number: number,
): Promise<Attempt> {
  return inCallSpan(framework.egress, outbound, number, (egress) =>
    attempted(framework, provider, { outbound, plan, number, egress }),
  )
}

interface Call {
  readonly outbound: OutboundCall<unknown>
  readonly plan: CallPlan
  readonly number: number
  readonly egress: Pick<Egress, 'fetch'>
}

async function attempted(
  framework: Framework,
  provider: IntegrationProvider,
  { outbound, plan, number, egress }: Call,
): Promise<Attempt> {
  const { timeoutMs, idempotencyKey } = plan
  const { endpoint, call, options } = outbound
  const deadline = new Deadline(options.signal, timeoutMs, () => new RequestTimeout(endpoint, timeoutMs))
  const secrets = () => knownSecrets(outbound.credentials())
  const given = { idempotencyKey, attempt: number, signal: deadline.signal }
  const { context, over } = callContext(egress, given, secrets, outbound.observeDate)
  const startedAt = performance.now()
  let seen = NO_ANSWER
  const finish = (answer: Answer, outcome: Attempt['outcome']): Attempt => {
    return { number, durationMs: Math.round(performance.now() - startedAt), answer: over(answer), outcome }
  }
  const perform = async (): Promise<{ value: unknown; body: unknown }> => {
    const returned = await call(context)
    // Before decoding: what a Response says of itself is known also when its body breaks off.
    seen = answerOf(returned, framework.clock.now())
    return decode(returned, { keyed: idempotencyKey !== null })
  }
  try {
    const { value, body } = await deadline.race(perform())
    return finish(seen, fitted(outbound, value, body))
  } catch (error) {
    const answer = deadline.isOver(error) ? NO_ANSWER : answerOf(error, framework.clock.now())
    return finish(answer.statusCode === null ? seen : answer, {
      kind: 'failed',
      error,
      failureClass: classOf(framework, provider, outbound, error),
    })
  } finally {
    deadline.release()
  }
}

/** The answer as the schema makes it. */
function fitted({ endpoint, schema }: OutboundCall<unknown>, returned: unknown, body: unknown): Success | Failure {
  const parsed = schema?.safeParse(returned)
  if (parsed === undefined) return { kind: 'succeeded', value: returned, returned, body }
  if (parsed.success) return { kind: 'succeeded', value: parsed.data, returned, body }
  const issues = parsed.error.issues.map(({ path, message }) => {
    return { path: path.map(String).join('.') || '(root)', message }
  })
  return { kind: 'failed', error: new SchemaDrift(endpoint, issues), failureClass: FailureClass.Unknown, body }
}

function classOf(
  framework: Framework,
  provider: IntegrationProvider,
  outbound: OutboundCall<unknown>,
  error: unknown,
): FailureClass {
  const caller = outbound.options.signal
  // The caller's own reason, whatever it looks like, says nothing about the provider.
  if (caller?.aborted === true && error === caller.reason) return FailureClass.Unknown
  const callerAborted = caller?.aborted === true
  const verdict = callerAborted ? null : providerVerdict(framework, provider, error, outbound)
  return classifyFailure({ error, callerAborted, providerVerdict: verdict })
}

/** A provider's classifier that throws, or answers nonsense, defers: its verdict must never hide the failure itself. */
export function providerVerdict(
  framework: Framework,
  provider: IntegrationProvider,
  error: unknown,
  { integration, credentials }: Pick<OutboundCall<unknown>, 'integration' | 'credentials'>,
): FailureClass | null {
  if (!classifiesFailures(provider)) return null
  try {
    const verdict = provider.classifyFailure(error)
    if (verdict === null || Object.values(FailureClass).includes(verdict)) return verdict
    // Its type only: what it gave may be the failure itself, with all that is in it.
    framework.logger.warn(
      {
        event: 'request.unclassified',
        integration: integration.id,
        provider: integration.provider,
        verdict: typeof verdict,
      },
      'classifyFailure() gave no failure class; ignored',
    )
  } catch (fault) {
    framework.logger.warn(
      {
        event: 'request.unclassified',
        integration: integration.id,
        provider: integration.provider,
        error: redactedErrorLine(fault, knownSecrets(credentials()), 500),
      },
      'classifyFailure() threw; ignored',
    )
  }
  return null
}
