/**
 * A process of shared-budget.e2e.test.ts: callers of integrations that share a budget. Database, provider and configuration come from
 * the environment; it says over IPC what became of its calls.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { RateLimit } from '../../../src/calls/rate-limit-rules.ts'
import { createIntegrations } from '../../../src/create-integrations.ts'

/** What a process is given, as JSON in `CALLS`. */
export interface Calls {
  readonly url: string
  readonly limit: number
  readonly seconds: number
  readonly tenants: readonly {
    readonly id: number
    readonly callers: number
    /** Pause of a caller between two calls. */
    readonly everyMs: number
  }[]
}

export type Said =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly longestMs: Readonly<Record<number, number>> }
  | { readonly kind: 'failed'; readonly message: string }

const { url, limit, seconds, tenants } = JSON.parse(process.env.CALLS ?? '') as Calls

const say = (said: Said): void => void process.send?.(said)
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({
  providers: {
    sharing: { rateLimitScope: () => ({ key: 'app:acme', limit: RateLimit.per(limit, seconds) }) },
  },
  config: { rate_limiting: { max_wait_seconds: 600 } },
  logger: silent,
})

const stop = new AbortController()
const go = new Promise<void>((resolve) => {
  process.on('message', (message) => (message === 'go' ? resolve() : stop.abort()))
})
const orphaned = () => process.exit(1)
process.on('disconnect', orphaned)

const longestMs: Record<number, number> = {}

async function callOn({ id, everyMs }: Calls['tenants'][number]): Promise<void> {
  const integration = await integrations.get(id)
  while (!stop.signal.aborted)
    try {
      const askedAt = performance.now()
      await integration.request('/arrivals', 'POST', () => fetch(`${url}/${id}`, { method: 'POST' }), {
        signal: stop.signal,
        attempts: 1,
      })
      longestMs[id] = Math.max(longestMs[id] ?? 0, performance.now() - askedAt)
      if (everyMs > 0) await sleep(everyMs, undefined, { signal: stop.signal })
    } catch (error) {
      if (stop.signal.aborted) return
      throw error
    }
}

try {
  await integrations.ready()
  say({ kind: 'ready' })
  await go
  await Promise.all(tenants.flatMap((tenant) => Array.from({ length: tenant.callers }, () => callOn(tenant))))
  say({ kind: 'done', longestMs })
} catch (error) {
  say({ kind: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  process.exitCode = 1
} finally {
  await integrations.close()
  process.off('disconnect', orphaned)
  process.disconnect?.()
}
