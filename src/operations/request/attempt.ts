import { RequestTimeout, SchemaDrift } from '../../core/errors.ts'
import { classifyFailure, FailureClass } from '../../core/failure-class.ts'
import { secretsOf } from '../../core/redaction.ts'
import type { Framework, OutboundCall } from '../../framework.ts'
import type { IntegrationProvider } from '../../providers/provider.ts'
import { classifiesFailures } from '../../providers/provider.ts'
import { redactedErrorLine } from '../redacted-error.ts'
import type { Answer } from './answer.ts'
import { answerOf, decode, NO_ANSWER } from './answer.ts'

/** Everything that one attempt came to. */
export interface Attempt {
  readonly number: number
  readonly durationMs: number
  readonly answer: Answer
  readonly outcome: { readonly kind: 'succeeded'; readonly value: unknown; readonly body: unknown } | Failure
}

interface Failure {
  readonly kind: 'failed'
  readonly error: unknown
  readonly failureClass: FailureClass
}

export async function makeAttempt(
  framework: Framework,
  provider: IntegrationProvider | null,
  outbound: OutboundCall<unknown>,
  number: number,
  timeoutMs: number,
): Promise<Attempt> {
  const { endpoint, call, options, schema } = outbound
  const deadline = new AbortController()
  const signal = options.signal === undefined ? deadline.signal : AbortSignal.any([deadline.signal, options.signal])
  const reported: { -readonly [K in keyof Answer]?: Answer[K] } = {}
  const startedAt = performance.now()
  const timeout = new RequestTimeout(endpoint, timeoutMs)
  const timer = setTimeout(() => deadline.abort(timeout), timeoutMs)
  const finish = (answer: Answer, outcome: Attempt['outcome']): Attempt => ({
    number,
    durationMs: Math.round(performance.now() - startedAt),
    answer: { ...answer, ...reported },
    outcome,
  })
  try {
    const context = {
      attempt: number,
      signal,
      report: (meta: {
        statusCode?: number | undefined
        providerRequestId?: string | undefined
        retryAfterSeconds?: number | undefined
      }) => {
        if (meta.statusCode !== undefined) reported.statusCode = meta.statusCode
        if (meta.providerRequestId !== undefined) reported.providerRequestId = meta.providerRequestId.slice(0, 128)
        if (meta.retryAfterSeconds !== undefined) reported.retryAfterSeconds = meta.retryAfterSeconds
      },
    }
    // A call that ignores the signal loses the race: its late result is dropped.
    const decoded = await Promise.race([
      Promise.resolve().then(async () => {
        const returned = await call(context)
        // Read before decoding: an error made of a Response must keep what the Response said.
        const seen = answerOf(returned, framework.clock.now())
        return { ...(await decode(returned)), seen }
      }),
      rejectOnAbort(signal),
    ])
    const answer = decoded.seen
    if (schema === undefined) return finish(answer, { kind: 'succeeded', value: decoded.value, body: decoded.body })
    const parsed = schema.safeParse(decoded.value)
    if (parsed.success) return finish(answer, { kind: 'succeeded', value: parsed.data, body: decoded.body })
    const drift = new SchemaDrift(
      endpoint,
      parsed.error.issues.map((issue) => ({
        path: issue.path.map(String).join('.') || '(root)',
        message: issue.message,
      })),
    )
    return finish(answer, { kind: 'failed', error: drift, failureClass: FailureClass.Unknown })
  } catch (error) {
    const callerAborted = options.signal?.aborted === true
    // The caller's own reason, whatever it looks like, says nothing about the provider.
    const failureClass =
      callerAborted && error === options.signal?.reason
        ? FailureClass.Unknown
        : classifyFailure({
            error,
            callerAborted,
            providerVerdict: callerAborted ? null : providerVerdict(framework, provider, error, outbound),
          })
    return finish(error === timeout ? NO_ANSWER : answerOf(error, framework.clock.now()), {
      kind: 'failed',
      error,
      failureClass,
    })
  } finally {
    clearTimeout(timer)
  }
}

/** A provider's classifier that throws, or answers nonsense, defers: its verdict must never hide the failure itself. */
function providerVerdict(
  framework: Framework,
  provider: IntegrationProvider | null,
  error: unknown,
  { integration, credentials }: Pick<OutboundCall<unknown>, 'integration' | 'credentials'>,
): FailureClass | null {
  if (provider === null || !classifiesFailures(provider)) return null
  try {
    const verdict = provider.classifyFailure(error)
    if (verdict === null || Object.values(FailureClass).includes(verdict)) return verdict
    framework.logger.warn({ integration: integration.id, verdict }, 'classifyFailure() gave no failure class; ignored')
  } catch (fault) {
    framework.logger.warn(
      { integration: integration.id, error: redactedErrorLine(fault, secretsOf(credentials()), 500) },
      'classifyFailure() threw; ignored',
    )
  }
  return null
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
