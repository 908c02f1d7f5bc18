/** Providers that manage their webhooks, and break a rule of it. */
import { z } from 'zod'
import type { Integration, WantedSubscription } from '../../../src/provider.ts'
import { statusOf } from '../../../src/provider.ts'
import type { ProviderFixtures } from '../../../src/testing/index.ts'
import type { Broken, Provider } from './broken.ts'
import { but, of } from './broken.ts'
import { SOUND_FIXTURES } from './sound-provider.ts'

const HOOKS = 'https://api.tickets.example/hooks'
const Hook = z.object({ id: z.string(), url: z.string() })
const FIXTURES: ProviderFixtures = {
  ...SOUND_FIXTURES,
  api(request) {
    if (!request.url.startsWith(HOOKS)) return SOUND_FIXTURES.api(request)
    if (request.method === 'DELETE') return new Response(null, { status: 204 })
    const hook = { id: 'h1', url: 'https://host.example/hook' }
    return Response.json(request.method === 'GET' ? [hook] : hook)
  },
}

const ask = (integration: Integration, method: string, path = '', body?: object): Promise<unknown> =>
  integration.request(`/hooks${path}`, method, ({ fetch }) =>
    fetch(HOOKS + path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }),
  )

const list = async (integration: Integration) => z.array(Hook).parse(await ask(integration, 'GET'))

async function renew(integration: Integration, { id }: { id: string }, { url, secret }: WantedSubscription) {
  return Hook.parse(await ask(integration, 'PATCH', `/${id}`, { url, secret }))
}

async function nullWhenGone<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (statusOf(error) === 404) return null
    throw error
  }
}

const SOUND = {
  webhookSecretFrom: 'us',
  createWebhookSubscription: async (integration: Integration, { url, secret }: WantedSubscription) =>
    Hook.parse(await ask(integration, 'POST', '', { url, secret })),
  webhookSubscriptions: list,
  renewWebhookSubscription: (...given: Parameters<typeof renew>) => nullWhenGone(renew(...given)),
  async removeWebhookSubscription(integration: Integration, { id }: { id: string }) {
    await nullWhenGone(ask(integration, 'DELETE', `/${id}`))
  },
}

const managing = (members: Partial<Record<keyof typeof SOUND, unknown>> = {}): Provider =>
  but(() => ({ ...SOUND, ...members }))

const THROWS = 'throws what goes wrong: a list that breaks off must not look empty'

export const BROKEN_SUBSCRIPTIONS: readonly Broken[] = of(
  'ManagesWebhooks',
  [
    'takes a list that fails for an API without one',
    managing({ webhookSubscriptions: (integration: Integration) => list(integration).catch(() => null) }),
    THROWS,
    /^webhookSubscriptions\(\) must throw where the provider answers 500/,
  ],
  [
    'takes a renewal that fails for one that is not possible',
    managing({ renewWebhookSubscription: (...given: Parameters<typeof renew>) => renew(...given).catch(() => null) }),
    THROWS,
    /^renewWebhookSubscription\(\) must throw where the provider answers 500/,
  ],
).map((broken) => ({ ...broken, fixtures: FIXTURES }))

export const UNUSUAL_SUBSCRIPTIONS: readonly Broken[] = of(
  'ManagesWebhooks',
  ['manages its webhooks', managing()],
  ['has an API without a list', managing({ webhookSubscriptions: async () => null })],
  ['renews by another subscription', managing({ renewWebhookSubscription: async () => null })],
).map((unusual) => ({ ...unusual, fixtures: FIXTURES }))
