/** The system under the soak: one API and two workers, as a host starts them, their backends, and the provider's server. */
import type { ChaosStack } from '../chaos/chaos-stack.ts'
import { startChaosStack, steadyPort } from '../chaos/chaos-stack.ts'
import type { KeptProcess } from '../chaos/kept-process.ts'
import { SECRET } from '../support/providers.ts'
import type { Insight } from './host.ts'
import { startOutside } from './outside.ts'

const SYNCED = 4

export interface SoakStack extends ChaosStack {
  /** Doors of the webhooks. */
  readonly urls: { readonly shop: string; readonly batch: string }
  /** Integrations that are synced. */
  readonly crms: readonly number[]
  readonly parts: readonly KeptProcess[]
  /** API and workers. */
  readonly processes: readonly SoakProcess[]
}

export interface SoakProcess {
  readonly name: string
  pid(): Promise<number>
  insight(): Promise<Insight>
}

export async function startSoakStack(installed: string): Promise<SoakStack> {
  const outside = await startOutside()
  process.env.OUTSIDE_URL = outside.url
  const doors = new Map<string, number>()
  for (const name of ['api', 'worker', 'worker-2']) doors.set(name, await steadyPort())
  const integration = (provider: string) => ({ provider, name: provider, credentials: { webhook_secret: SECRET } })
  const stack = await startChaosStack({
    hostConfig: new URL('./host.ts', import.meta.url),
    integration: integration('shop'),
    installed,
    // Else this process grows, which sends the load and takes the times.
    isKept: (line) => !line.includes('"level":30'),
    environmentOf: async (name) => ({
      SOAK_INSIGHT_PORT: String(doors.get(name)),
      NODE_OPTIONS: '--expose-gc',
    }),
  }).catch(async (error: unknown) => {
    await outside.stop()
    throw error
  })
  const stop = async (): Promise<void> => {
    await stack.stop()
    await outside.stop()
  }
  try {
    const { id: batchId } = await stack.integrations.create(integration('batch'))
    const crms: number[] = []
    for (let n = 1; n <= SYNCED; n += 1)
      crms.push((await stack.integrations.create({ provider: 'crm', name: `crm ${n}`, credentials: {} })).id)
    const port = await steadyPort()
    const own = [stack.keepApi(port), stack.worker, stack.keepWorker('worker-2')]
    const parts = [...own, stack.postgres, stack.temporal]
    await Promise.all(parts.map((part) => part.ready()))
    const url = (provider: string, id: number) => `http://127.0.0.1:${port}/integrations/${provider}/${id}/webhook`
    return {
      ...stack,
      urls: { shop: url('shop', stack.integrationId), batch: url('batch', batchId) },
      crms,
      parts,
      processes: own.map((part) => ({
        name: part.name,
        pid: async () => (await part.started()).pids()[0] as number,
        insight: async () => {
          const response = await fetch(`http://127.0.0.1:${doors.get(part.name)}`)
          if (!response.ok) throw new Error(`${part.name} says nothing of itself: ${await response.text()}`)
          return (await response.json()) as Insight
        },
      })),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
