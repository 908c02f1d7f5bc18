/**
 * What a user would have, or build, in our place. Each is as light as it can honestly be: no timeout, no redaction, no
 * classification; statements are prepared.
 */
import type { IPolicy } from 'cockatiel'
import { circuitBreaker, ExponentialBackoff, handleAll, retry, SamplingBreaker, wrap } from 'cockatiel'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { RateLimiterPostgres } from 'rate-limiter-flexible'

/** One call for the integration with this number, from 0. */
export type Call = (integration: number) => Promise<unknown>

export interface Peers {
  readonly bareFetch: Call
  readonly fetchAndInsert: Call
  readonly builtFromPackages: Call
  /** Rows that ours has written, and those of the last two here. */
  rows(): Promise<{ readonly ours: number; readonly peers: number }>
  close(): Promise<void>
}

export interface PeerOptions {
  readonly databaseUrl: string
  readonly providerUrl: string
  /** Ids of the integrations that the rows belong to. */
  readonly integrationIds: readonly number[]
  /** Connections, as many as ours has. */
  readonly poolSize: number
  /** So high that nobody waits. */
  readonly limit: { readonly calls: number; readonly seconds: number }
}

/** Our own table's twin: the same columns, indexes, checks and reference. */
const TABLE = `
  create table peer_requests (like integration_requests including all);
  alter table peer_requests add foreign key (integration_id) references integrations (id) on delete cascade`

export async function createPeers(options: PeerOptions): Promise<Peers> {
  const { databaseUrl, providerUrl, integrationIds, poolSize } = options
  const sql = postgres(databaseUrl, { max: poolSize, onnotice: () => {} })
  await sql.unsafe(TABLE)
  const limiter = await rateLimiter(sql, options)
  const policies = integrationIds.map(policy)

  const bareFetch = async () => (await fetch(providerUrl)).json()
  const fetchAndInsert = async (integration: number) => {
    const startedAt = performance.now()
    const response = await fetch(providerUrl)
    const body = await response.text()
    const durationMs = Math.round(performance.now() - startedAt)
    const requestId = response.headers.get('x-request-id')
    await sql`
      insert into peer_requests (integration_id, endpoint, method, status_code, provider_request_id, response_data, duration_ms)
      values (${integrationIds[integration] as number}, '/widgets', 'GET', ${response.status}, ${requestId}, ${body}, ${durationMs})`
    if (!response.ok) throw new Error(`HTTP ${response.status}`)
    return JSON.parse(body)
  }
  return {
    bareFetch,
    fetchAndInsert,
    builtFromPackages: async (integration) => {
      await limiter.consume(`integration-${integration}`)
      return policies[integration]?.execute(() => fetchAndInsert(integration))
    },
    async rows() {
      const [row] = await sql<{ ours: number; peers: number }[]>`
        select (select count(*)::int from integration_requests) as ours, (select count(*)::int from peer_requests) as peers`
      return row ?? { ours: 0, peers: 0 }
    },
    close: () => sql.end({ timeout: 5 }),
  }
}

/** As cockatiel's own page combines them. A breaker counts in memory: it holds in this process only, and until it ends. */
function policy(): IPolicy {
  const breaker = new SamplingBreaker({ threshold: 0.5, duration: 60_000, minimumRps: 1 })
  return wrap(
    retry(handleAll, { maxAttempts: 3, backoff: new ExponentialBackoff() }),
    circuitBreaker(handleAll, { halfOpenAfter: 30_000, breaker }),
  )
}

/** The package speaks to node-postgres; the same call is given to the pool that writes the rows, prepared as there. */
function rateLimiter(sql: Sql, { limit }: PeerOptions): Promise<RateLimiterPostgres> {
  const query = async ({ text, values = [] }: { text: string; values?: (string | number | null)[] }) => {
    const rows = await sql.unsafe(text, values, { prepare: values.length > 0 })
    return { rows, rowCount: rows.count }
  }
  return new Promise((resolve, reject) => {
    const limiter: RateLimiterPostgres = new RateLimiterPostgres(
      {
        storeClient: { query },
        storeType: 'pool',
        tableName: 'peer_limits',
        points: limit.calls,
        duration: limit.seconds,
        clearExpiredByTimeout: false,
      },
      (error) => (error === undefined ? resolve(limiter) : reject(error)),
    )
  })
}
