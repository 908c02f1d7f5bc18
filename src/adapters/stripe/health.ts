/** Whether the account answers. Rule: docs/behaviour/stripe.md, "Health". */
import { SchemaDrift } from '../../provider.ts'
import type { StripeAccount } from './account.ts'
import { callStripe } from './call.ts'

const ENDPOINT = 'balance'
/** A check that waits longer has its answer. */
const TIMEOUT_MS = 10_000

/** False for whatever fails: the request's row says why. Credentials that do not fit make no request. */
export async function isHealthy(account: StripeAccount): Promise<boolean> {
  try {
    await callStripe(account, {
      endpoint: ENDPOINT,
      method: 'GET',
      attempts: 1,
      timeoutMs: TIMEOUT_MS,
      // Inside the call: the row of an answer that is none says so.
      async send(stripe) {
        const balance = await stripe.balance.retrieve()
        const { object }: { object: unknown } = balance
        if (object !== 'balance') throw new SchemaDrift(ENDPOINT, [{ path: 'object', message: '"balance" is allowed' }])
        return balance
      },
    })
    return true
  } catch {
    return false
  }
}
