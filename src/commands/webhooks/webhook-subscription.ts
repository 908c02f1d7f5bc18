/** The subscription of an integration as commands and the API show it. */
import { z } from 'zod'
import type { CommandContext } from '../command.ts'
import { columns } from '../command.ts'
import { all, moment, rowId } from '../shapes.ts'

export const SubscriptionShape = z.object({
  integration_id: rowId,
  is_wanted: z
    .boolean()
    .describe(
      'Whether a person has asked for one. While the integration is switched off, the provider has no subscription',
    ),
  subscription_id: z.string().nullable().describe('The provider’s id; null: none is known'),
  url: z.string().nullable(),
  ...all(moment.nullable(), 'expires_at', 'renewed_at', 'checked_at', 'next_check_at', 'failing_since'),
  failures: z.int().describe('Looks in a row that failed'),
  last_error: z.string().nullable(),
})

/** What asks the provider; each is written down. */
export const ACTS = {
  register: 'register-webhooks',
  checkSubscription: 'check-webhooks',
  unregister: 'remove-webhooks',
} as const

export async function act({ integrations, note }: CommandContext, id: number, how: keyof typeof ACTS) {
  const view = await integrations.webhooks[how](id)
  if (how !== 'checkSubscription') await note(id, ACTS[how])
  return columns(view)
}

export type Subscription = Awaited<ReturnType<typeof act>>

/** In a sentence. */
export function standingOf({ integration_id: id, is_wanted, subscription_id, url, expires_at }: Subscription): string {
  if (subscription_id !== null) {
    const end = expires_at === null ? 'it does not end' : `it is renewed before ${expires_at.toISOString()}`
    return `The webhook of integration ${id} is registered as ${subscription_id}, for ${url}; ${end}.`
  }
  if (is_wanted)
    return `The webhook of integration ${id} is registered as soon as the integration is switched on: integrations enable ${id}.`
  return `Integration ${id} has no registered webhook.`
}
