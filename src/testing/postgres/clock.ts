/**
 * Lets the database read the test's clock: functions of the names of Postgres' own, found before them by the search
 * path. Columns' defaults are bound to a function when a table is made, so this comes before the migrations.
 */
import type { Clock } from '../../framework/logger.ts'

const SETTING = 'durable_integrations_kit.now'
const SCHEMA = 'durable_integrations_kit'
/** `public` is first, so that tables are made there; a schema named here is searched before `pg_catalog`. */
const SEARCH_PATH = `set search_path = public, ${SCHEMA}, pg_catalog`

const FUNCTIONS = ['now', 'clock_timestamp', 'statement_timestamp', 'transaction_timestamp']
  .map(
    (name) => `create function ${SCHEMA}.${name}() returns timestamptz language sql stable
      return current_setting('${SETTING}')::timestamptz`,
  )
  .join(';\n')

/** For a new database. */
export const CREATE_CLOCK = `create schema ${SCHEMA};\n${FUNCTIONS}`

/** For each session. */
export function useClock(clock: Clock): string {
  return `${SEARCH_PATH}; ${settingOf(clock.now().getTime())}`
}

/** Says what must run before a statement so that it sees the clock's time; null while the clock stands still. */
export function clockKeeper(clock: Clock): () => string | null {
  let told = Number.NaN
  return () => {
    const now = clock.now().getTime()
    if (now === told) return null
    told = now
    return settingOf(now)
  }
}

function settingOf(now: number): string {
  return `set ${SETTING} = '${new Date(now).toISOString()}'`
}
