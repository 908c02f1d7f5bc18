/**
 * One API and some workers over many integrations. Each worker reaches Postgres, or the PgBouncer before it, and Temporal by links
 * that can be cut.
 */
import type { Integrations } from '../../src/create-integrations.ts'
import type { CuttingProxy } from '../support/cutting-proxy.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { SECRET } from '../support/providers.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { startChaosStack, steadyPort } from './chaos-stack.ts'
import type { FaultyStack } from './inbox-faults.ts'
import type { KeptProcess } from './kept-process.ts'

export type Backend = 'postgres' | 'temporal'

export interface InboxStack extends ChaosStack, FaultyStack {
  readonly api: KeptProcess
  /** By name. */
  readonly workers: ReadonlyMap<string, KeptProcess>
  readonly webhookUrls: readonly string[]
  /** Ids that were answered 2xx: what must not be lost. */
  readonly answered: Set<string>
}

const WORKERS = ['worker', 'worker-2'] as const

export async function startInboxStack(size: {
  readonly integrations: number
  readonly workers: 1 | 2
  /** As in {@link startChaosStack}. */
  readonly poolerConnections?: number
  /** Address of the provider that the handlers call. Not given: they call none. */
  readonly providerUrl?: string
}): Promise<InboxStack> {
  const links = new Map<string, Record<Backend, CuttingProxy>>()
  const closeLinks = async (): Promise<void> => {
    for (const { postgres, temporal } of links.values()) await Promise.all([postgres.close(), temporal.close()])
  }
  const named = (name: string): Parameters<Integrations['create']>[0] => ({
    provider: 'proof',
    name,
    credentials: { webhook_secret: SECRET },
  })
  const stack = await startChaosStack({
    hostConfig: new URL('./inbox-host.ts', import.meta.url),
    integration: named('1'),
    poolerConnections: size.poolerConnections ?? null,
    async environmentOf(name, { DATABASE_URL, TEMPORAL_ADDRESS }) {
      // The API's links are not cut.
      if (!WORKERS.some((worker) => worker === name)) return {}
      const own = links.get(name) ?? {
        postgres: await startCuttingProxy(DATABASE_URL),
        temporal: await startCuttingProxy(`http://${TEMPORAL_ADDRESS}`),
      }
      links.set(name, own)
      return {
        DATABASE_URL: own.postgres.url,
        TEMPORAL_ADDRESS: new URL(own.temporal.url).host,
        ...(size.providerUrl === undefined ? {} : { CALLED_PROVIDER_URL: size.providerUrl }),
      }
    },
  })
  const stop = async (): Promise<void> => {
    await stack.stop()
    await closeLinks()
  }
  try {
    const ids = [stack.integrationId]
    for (let n = 2; n <= size.integrations; n += 1) ids.push((await stack.integrations.create(named(String(n)))).id)
    const port = await steadyPort()
    const api = stack.keepApi(port)
    const workers = new Map<string, KeptProcess>([[WORKERS[0], stack.worker]])
    if (size.workers === 2) workers.set(WORKERS[1], stack.keepWorker(WORKERS[1]))
    await Promise.all([api, ...workers.values()].map((part) => part.ready()))
    return {
      ...stack,
      api,
      workers,
      webhookUrls: ids.map((id) => `http://127.0.0.1:${port}/integrations/proof/${id}/webhook`),
      answered: new Set(),
      partOf(target) {
        if (target === 'pgbouncer' && stack.pooler !== null) return stack.pooler
        if (target === 'api') return api
        if (target === 'postgres' || target === 'temporal') return stack[target]
        const worker = workers.get(target)
        if (worker === undefined) throw new Error(`no worker ${target}`)
        return worker
      },
      linkOf(worker, backend) {
        const own = links.get(worker)
        if (own === undefined) throw new Error(`${worker} has not been started`)
        return own[backend]
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
