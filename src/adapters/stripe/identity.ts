/** Whom the key belongs to. Rule: docs/behaviour/stripe.md, "Identity". */
import { z } from 'zod'
import type { AuthenticatedUser } from '../../provider.ts'
import { SchemaDrift } from '../../provider.ts'
import type { StripeAccount } from './account.ts'
import { callStripe } from './call.ts'

const ENDPOINT = 'account'

/** https://docs.stripe.com/api/accounts/object */
const Account = z.object({
  id: z.string().min(1),
  email: z.string().nullish(),
  business_profile: z.object({ name: z.string().nullish() }).nullish(),
})

/** @throws SchemaDrift for an answer that is no account */
export async function identityOf(account: StripeAccount): Promise<AuthenticatedUser> {
  const answered = await callStripe(account, {
    endpoint: ENDPOINT,
    method: 'GET',
    // Inside the call: the row of an answer that does not fit says so.
    send: async (stripe) => accountIn(await stripe.accounts.retrieveCurrent()),
  })
  const { id, email = null, business_profile: profile } = answered
  return { id, name: profile?.name ?? null, email, username: null }
}

function accountIn(answered: unknown): z.infer<typeof Account> {
  const parsed = Account.safeParse(answered)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map(({ path, message }) => ({ path: path.join('.') || '(root)', message }))
  throw new SchemaDrift(ENDPOINT, issues)
}
