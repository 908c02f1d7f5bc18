import { errorLine } from '../../framework/logger.ts'
import type { Check } from './doctor-check.ts'
import { counted, fault, moment, ok, warning } from './doctor-check.ts'
import { databaseClock } from './doctor-queries.ts'

/** Beyond it, moments of the process and of the database can't be compared, and signatures with a time in them look old. */
const MAX_SKEW_SECONDS = 5

export const databaseReachable: Check = {
  name: 'database.reachable',
  needs: [],
  async look({ db }, { checkDatabase }) {
    try {
      await checkDatabase()
    } catch (error) {
      return fault(errorLine(error, 1_000), 'psql "$DATABASE_URL" -c "select version()"')
    }
    return ok(`Postgres ${(await databaseClock(db)).version} answers.`)
  },
}

export const databaseMigrations: Check = {
  name: 'database.migrations',
  needs: ['database.reachable'],
  async look(_, { pendingMigrations }) {
    const pending = await pendingMigrations()
    return pending.length === 0
      ? ok('The tables are up to this release.')
      : fault(
          `The tables are behind this release by ${counted(pending.length, 'migration')}: ${pending.join(', ')}.`,
          'integrations migrate',
        )
  },
}

export const clockSkew: Check = {
  name: 'clock.skew',
  needs: ['database.reachable'],
  async look({ db, clock }) {
    const askedAt = clock.now().getTime()
    const { now } = await databaseClock(db)
    const answeredAt = clock.now().getTime()
    // The database looked at its clock somewhere between.
    const behindMs = now.getTime() - answeredAt
    const aheadMs = askedAt - now.getTime()
    const skewSeconds = Math.max(behindMs, aheadMs, 0) / 1_000
    if (skewSeconds <= MAX_SKEW_SECONDS)
      return ok(`This machine's clock and Postgres' agree within ${MAX_SKEW_SECONDS} s.`)
    return warning(
      `This machine's clock is ${Math.round(skewSeconds)} s ${behindMs > aheadMs ? 'behind' : 'ahead of'} Postgres', which says ${moment(now)}; ${MAX_SKEW_SECONDS} s are allowed. Correct whichever is wrong.`,
      'sudo timedatectl set-ntp true',
    )
  },
}
