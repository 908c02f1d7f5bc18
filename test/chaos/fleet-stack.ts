/** Two API and three worker processes over one Postgres and one Temporal server, and the provider that they ask. */
import type { Integration } from '../../src/index.ts'
import { SECRET } from '../support/providers.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { startChaosStack, steadyPort } from './chaos-stack.ts'
import type { FleetProvider } from './fleet-provider.ts'
import { startFleetProvider } from './fleet-provider.ts'
import type { KeptProcess } from './kept-process.ts'

/** Each with a queue of its own in a pump. */
const HOOK_INTEGRATIONS = 40

export interface FleetStack extends ChaosStack {
  readonly provider: FleetProvider
  /** Addresses of the two. */
  readonly apis: readonly string[]
  readonly workers: readonly KeptProcess[]
  readonly webhookPaths: readonly string[]
  /** Makes the integration whose sync is due at once. */
  createListed(): Promise<Integration>
}

export async function startFleet({ entries }: { readonly entries: number }): Promise<FleetStack> {
  const provider = await startFleetProvider(entries)
  const metadata = { provider_url: provider.url }
  const hooks = (name: string) => ({
    provider: 'hooks',
    name,
    credentials: { webhook_secret: SECRET },
    metadata,
  })
  const stack = await startChaosStack({
    hostConfig: new URL('./fleet-host.ts', import.meta.url),
    integration: hooks('1'),
  }).catch(async (error: unknown) => {
    await provider.stop()
    throw error
  })
  const stop = async (): Promise<void> => {
    await stack.stop()
    await provider.stop()
  }
  try {
    const ids = [stack.integrationId]
    for (let n = 2; n <= HOOK_INTEGRATIONS; n += 1) ids.push((await stack.integrations.create(hooks(String(n)))).id)
    const workers = [stack.worker, stack.keepWorker('worker-2'), stack.keepWorker('worker-3')]
    const ports = [await steadyPort(), await steadyPort()]
    const apis = ports.map((port, index) => stack.keepApi(port, `api-${index + 1}`))
    await Promise.all([...workers, ...apis].map((part) => part.ready()))
    return {
      ...stack,
      provider,
      workers,
      apis: ports.map((port) => `http://127.0.0.1:${port}`),
      webhookPaths: ids.map((id) => `/integrations/hooks/${id}/webhook`),
      createListed: () => stack.integrations.create({ provider: 'listed', name: 'Listed', credentials: {}, metadata }),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
