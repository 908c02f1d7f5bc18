/**
 * A process of incidents.e2e.test.ts: opens incidents in one of three ways, all at once. Database and configuration come from the
 * environment; it says over IPC when it is ready and when it is done.
 */

import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import { createIntegrations, partsOf } from '../../src/create-integrations.ts'
import { evaluateStaleSyncs } from '../../src/syncs/staleness.ts'

export type Said =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly opened: number; readonly escalated: number }
  | { readonly kind: 'failed'; readonly message: string }

const [id, openers] = process.argv.slice(2).map(Number) as [number, number]
const say = (said: Said): void => void process.send?.(said)
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({
  providers: {
    acme: {
      sync: async () => {},
      reduceCheckpoints: () => null,
      defaultRateLimit: () => RateLimit.perMinute(1_000),
      defaultSyncInterval: () => 1,
    },
  },
  config: JSON.parse(process.env.CONFIG ?? '') as object,
  logger: silent,
})
const { framework } = partsOf(integrations)
// Their workflow is not what is asked for here, and there is no server for it.
Object.assign(framework.workflows, { followIncident: () => {} })

const told = { opened: 0, escalated: 0 }
integrations.on('IncidentOpened', () => {
  told.opened += 1
})
integrations.on('IncidentEscalated', () => {
  told.escalated += 1
})
const go = new Promise<void>((resolve) => void process.once('message', () => resolve()))
const orphaned = () => process.exit(1)
process.on('disconnect', orphaned)

async function failingCall(): Promise<void> {
  const integration = await integrations.get(id)
  const refused = Object.assign(new Error('no'), { status: 503 })
  await integration
    .request('things', 'GET', () => Promise.reject(refused), { attempts: 1 })
    .catch((error: unknown) => {
      // Once the breaker is open, a call is refused before it is made.
      if (error !== refused && !(error instanceof Error && 'code' in error && error.code === 'circuit_open'))
        throw error
    })
}

/** A settlement with the breaker, one without, and a dispatch's evaluation, in turn. */
const WAYS = [
  failingCall,
  async () => (await integrations.get(id)).recordFailure('upstream'),
  () => evaluateStaleSyncs(framework),
]

try {
  await integrations.ready()
  say({ kind: 'ready' })
  await go
  await Promise.all(Array.from({ length: openers }, (_, n) => WAYS[n % WAYS.length]?.()))
  say({ kind: 'done', ...told })
} catch (error) {
  say({ kind: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  process.exitCode = 1
} finally {
  await integrations.close()
  process.off('disconnect', orphaned)
  process.disconnect?.()
}
