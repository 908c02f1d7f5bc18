/** Ours, with everything switched on: breaker, limiter, health, incidents, the row, redaction. */
import { randomBytes } from 'node:crypto'
import type { Integrations } from 'durable-integrations'
import { createIntegrations, RateLimit } from 'durable-integrations'
import type { Call, PeerOptions } from './peers.ts'

export interface Ours {
  readonly integrationIds: readonly number[]
  readonly call: Call
  /** The same with a rolling window instead of a fixed one. */
  readonly slidingCall: Call
  close(): Promise<void>
}

export type OursOptions = Omit<PeerOptions, 'integrationIds'> & { readonly integrations: number }

export async function createOurs(options: OursOptions): Promise<Ours> {
  const { databaseUrl, providerUrl, poolSize, limit } = options
  const perWindow = RateLimit.per(limit.calls, limit.seconds)
  const integrations = createIntegrations({
    database: databaseUrl,
    encryptionKeys: `bench:${randomBytes(32).toString('base64')}`,
    pool: { max: poolSize },
    // The defaults, said once more: a bench of a part that is switched off would be worth nothing.
    config: {
      circuit_breaker: { enabled: true },
      rate_limiting: { overrides_enabled: true },
      observability: { incidents_enabled: true },
    },
    providers: {
      bench: { defaultRateLimit: () => perWindow },
      sliding: { defaultRateLimit: () => perWindow.sliding() },
    },
    logger: onlyTroubles,
  })
  await integrations.migrate()
  const fixed = await handles(integrations, 'bench', options.integrations)
  const [sliding] = await handles(integrations, 'sliding', 1)
  // The caller's own fetch, Node's global one, as the peers use it.
  const requestWith = (handle: (typeof fixed)[number] | undefined) =>
    handle?.request('/widgets', 'GET', ({ signal }) => fetch(providerUrl, { signal })) ??
    Promise.reject(new RangeError())
  return {
    integrationIds: fixed.map(({ id }) => id),
    call: (integration) => requestWith(fixed[integration]),
    slidingCall: () => requestWith(sliding),
    close: () => integrations.close(),
  }
}

function handles(integrations: Integrations, provider: string, count: number) {
  const credentials = { token: randomBytes(24).toString('hex') }
  return Promise.all(
    Array.from({ length: count }, (_, at) => integrations.create({ provider, name: `${provider} ${at}`, credentials })),
  )
}

const onlyTroubles = {
  debug: () => {},
  info: () => {},
  warn: (fields: Record<string, unknown>, message: string) => console.error(message, fields),
  error: (fields: Record<string, unknown>, message: string) => console.error(message, fields),
}
