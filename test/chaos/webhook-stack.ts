/** The stack that takes webhooks: with an API, and an account of what it answered. */
import { SECRET } from '../support/providers.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { startChaosStack, steadyPort } from './chaos-stack.ts'
import type { KeptProcess } from './kept-process.ts'

export interface WebhookStack extends ChaosStack {
  readonly api: KeptProcess
  readonly webhookUrl: string
  /** Ids that were answered 2xx, by whichever scenario: what must not be lost. */
  readonly answered: Set<string>
}

export async function startWebhookStack(): Promise<WebhookStack> {
  const stack = await startChaosStack({
    hostConfig: new URL('./host.ts', import.meta.url),
    integration: { provider: 'chaos', name: 'Chaos', credentials: { webhook_secret: SECRET } },
  })
  try {
    const port = await steadyPort()
    const api = stack.keepApi(port)
    await Promise.all([api.ready(), stack.worker.ready()])
    const webhookUrl = `http://127.0.0.1:${port}/integrations/chaos/${stack.integrationId}/webhook`
    return { ...stack, api, webhookUrl, answered: new Set() }
  } catch (error) {
    await stack.stop()
    throw error
  }
}
