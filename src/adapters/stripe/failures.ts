/** Which class a failure of a call to Stripe is of. Rule: docs/behaviour/stripe.md, "Failures". */
import { classOfStatus, FailureClass, statusOf } from '../../provider.ts'

/** Of the SDK, whichever copy of it threw: https://docs.stripe.com/error-handling?lang=node */
const SDK_ERROR = /^Stripe\w*Error$/

/** Null leaves the verdict to the framework. */
export function classifyStripeFailure(error: unknown): FailureClass | null {
  const type = typeof error === 'object' && error !== null ? Reflect.get(error, 'type') : null
  if (typeof type !== 'string' || !SDK_ERROR.test(type)) return null
  if (type === 'StripeConnectionError') return FailureClass.Upstream
  // Stripe also says it with a 400 and the code `rate_limit`.
  if (type === 'StripeRateLimitError') return FailureClass.Throttle
  const status = statusOf(error)
  return status === null ? FailureClass.Unknown : classOfStatus(status)
}
