/** A provider of the server in subscription-server.ts, as an author would write it. */
import { z } from 'zod'
import type { HttpError, Integration, ManagesWebhooks, WebhookSubscription } from '../../src/provider.ts'
import { isIntegrationsError } from '../../src/provider.ts'
import { webhookProvider } from './providers.ts'

const Subscription = z.object({
  id: z.string(),
  url: z.string(),
  active: z.boolean(),
  expires_at: z.iso.datetime().nullable(),
  secret: z.string().optional(),
})
const Metadata = z.looseObject({ server: z.url() })

export function subscribingProvider(
  overrides: Partial<ManagesWebhooks> = {},
  { canRenew = true }: { readonly canRenew?: boolean } = {},
): ManagesWebhooks {
  return {
    ...webhookProvider(),
    webhookSecretFrom: 'us',
    async createWebhookSubscription(integration, { url, secret, signal }) {
      const made = await ask(integration, Subscription, { method: 'POST', body: { url, secret }, signal })
      return { ...subscriptionOf(made), ...(made.secret === undefined ? {} : { secret: made.secret }) }
    },
    async webhookSubscriptions(integration, { signal }) {
      return (await ask(integration, z.array(Subscription), { method: 'GET', signal })).map(subscriptionOf)
    },
    async renewWebhookSubscription(integration, { id }, { url, secret, signal }) {
      if (!canRenew) return null
      const call = { method: 'PATCH', path: `/${id}`, body: { url, secret }, signal }
      const renewed = await nullWhenGone(ask(integration, Subscription, call))
      return renewed === null ? null : subscriptionOf(renewed)
    },
    async removeWebhookSubscription(integration, { id }, { signal }) {
      await nullWhenGone(ask(integration, Subscription, { method: 'DELETE', path: `/${id}`, signal }))
    },
    ...overrides,
  }
}

function subscriptionOf({ id, url, active, expires_at: end }: z.infer<typeof Subscription>): WebhookSubscription {
  return { id, url, expiresAt: end === null ? null : new Date(end), isIntact: active }
}

interface Asked {
  readonly method: string
  readonly path?: string
  readonly body?: { readonly url: string; readonly secret: string | null }
  readonly signal: AbortSignal
}

function ask<S extends z.ZodType>(
  integration: Integration,
  schema: S,
  { method, path = '', body, signal }: Asked,
): Promise<z.output<S>> {
  const { server } = Metadata.parse(integration.metadata)
  return integration.requestAs(
    schema,
    `subscriptions${path}`,
    method,
    async ({ fetch }) => {
      const answer = await fetch(`${server}/subscriptions${path}`, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return answer
    },
    { signal, timeoutMs: 10_000, attempts: 1, ...(body === undefined ? {} : { data: body }) },
  )
}

async function nullWhenGone<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (isIntegrationsError(error, 'http_error') && (error as HttpError).status === 404) return null
    throw error
  }
}
