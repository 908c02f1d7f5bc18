/**
 * A process of call-limits.e2e.test.ts: `callers` callers of one integration. Database, provider and configuration come from the
 * environment; it says over IPC what became of its calls.
 */
import { RateLimit } from '../../../src/calls/rate-limit-rules.ts'
import { createIntegrations } from '../../../src/create-integrations.ts'

/** What a process is given, as JSON in `CALLS`. */
export interface Calls {
  readonly integrationId: number
  readonly url: string
  readonly callers: number
  readonly window: 'fixed' | 'sliding' | null
  /** Calls in each second. */
  readonly limit: number
  readonly windowSeconds: number
  /** Each caller calls again until it is told to stop; otherwise once. */
  readonly repeat: boolean
  readonly config: Record<string, Record<string, number | string>>
}

export type Said =
  | { readonly kind: 'ready' }
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'done'; readonly made: number }
  | { readonly kind: 'failed'; readonly message: string }

const {
  integrationId,
  url,
  callers,
  window,
  limit: calls,
  windowSeconds,
  repeat,
  config,
} = JSON.parse(process.env.CALLS ?? '') as Calls

const say = (said: Said): void => void process.send?.(said)
const limit = window === null ? null : RateLimit.per(calls, windowSeconds)[window]()
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({
  providers: { limited: { defaultRateLimit: () => limit } },
  config,
  logger: silent,
})

const stop = new AbortController()
const go = new Promise<void>((resolve) => {
  process.on('message', (message) => (message === 'go' ? resolve() : stop.abort()))
})
const orphaned = () => process.exit(1)
process.on('disconnect', orphaned)

let made = 0
async function callOn(): Promise<void> {
  const integration = await integrations.get(integrationId)
  do {
    try {
      await integration.request('/arrivals', 'POST', () => fetch(url, { method: 'POST' }), { signal: stop.signal })
      made += 1
    } catch (error) {
      if (stop.signal.aborted) return
      const code = error instanceof Error && 'code' in error ? String(error.code) : ''
      if (code !== 'circuit_open') throw error
      say({ kind: 'refused', code })
    }
  } while (repeat && !stop.signal.aborted)
}

try {
  await integrations.ready()
  say({ kind: 'ready' })
  await go
  await Promise.all(Array.from({ length: callers }, callOn))
  say({ kind: 'done', made })
} catch (error) {
  say({ kind: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  process.exitCode = 1
} finally {
  await integrations.close()
  process.off('disconnect', orphaned)
  process.disconnect?.()
}
