/** The pools of one process: a statement never waits for a connection that statements of another kind hold. */
import type { ConnectOptions } from './client.ts'
import { connect } from './client.ts'

/** One for admissions, two for settlements: one of these may wait for the disk. */
const CALL_CONNECTIONS = 3
/** Statements that store deliveries, two with ordering keys and two without (webhooks/arrival.ts), and one that looks for owners. */
const ARRIVAL_CONNECTIONS = 5
/**
 * A delivery waits for the statement under way, and for its own: 8 s at most. GitHub hangs up after 10 s
 * (https://docs.github.com/en/webhooks/using-webhooks/best-practices-for-using-webhooks#respond-within-10-seconds).
 */
const ARRIVAL_SECONDS = 4
/** Sooner, so that Postgres says that it was a lock. Longer than a migration waits for its own locks (db/apply-migrations.ts): 2 s. */
const ARRIVAL_LOCK_SECONDS = 3
/** The connection of the gauges of /metrics closes after this time without a scrape. */
const STANDING_IDLE_SECONDS = 30

/** @param pool settings of the two large pools, and upper bounds of those for calls and arrivals */
export function openConnections(database: ConnectOptions['database'], pool: ConnectOptions['pool'] = {}) {
  const pools = {
    main: connect({ database, pool }),
    models: connect({ database, pool, names: false }),
    calls: connect({ database, pool: { ...pool, max: Math.min(pool.max ?? CALL_CONNECTIONS, CALL_CONNECTIONS) } }),
    arrivals: connect({
      database,
      pool: {
        ...pool,
        max: Math.min(pool.max ?? ARRIVAL_CONNECTIONS, ARRIVAL_CONNECTIONS),
        statementSeconds: Math.min(pool.statementSeconds || ARRIVAL_SECONDS, ARRIVAL_SECONDS),
        lockSeconds: ARRIVAL_LOCK_SECONDS,
      },
    }),
    // Opened by a scrape; one every 15 s keeps it.
    standing: connect({ database, pool: { max: 1, idleSeconds: STANDING_IDLE_SECONDS } }),
  }
  const close = async (): Promise<void> => {
    await Promise.all(Object.values(pools).map((one) => one.close()))
  }
  return { ...pools, close }
}
