/** Whether the account answers. Rule: docs/behaviour/stripe.md, "Health". */
import type { StripeAccount } from './account.ts'
import { callStripe } from './call.ts'

/** A check that waits longer has its answer. */
const TIMEOUT_MS = 10_000

/** False for whatever fails: the request's row says why. */
export async function isHealthy(account: StripeAccount): Promise<boolean> {
  try {
    await callStripe(account, {
      endpoint: 'balance',
      method: 'GET',
      attempts: 1,
      timeoutMs: TIMEOUT_MS,
      send: (stripe) => stripe.balance.retrieve(),
    })
    return true
  } catch {
    return false
  }
}
