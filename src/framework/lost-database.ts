/** Whether Postgres went away under a statement. Rule: docs/commands.md, "Exit codes". */
import { errorChain, isConnectionFault, isDatabaseError } from '../calls/failure-class-rules.ts'
import { field } from './thrown.ts'

/**
 * postgres.js' own (https://github.com/porsager/postgres#error-handling), and ours (db/connecting.ts) for a statement without an answer and for a
 * server of several that is a standby.
 */
const DRIVER_CODES: ReadonlySet<string> = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'STANDBY',
  'STATEMENT_TIMEOUT',
])

/**
 * Of the server: the whole class 08, no connection left, and what it says when it stops, has crashed, starts, ends an idle
 * session, in a transaction (25P03) or outside of one, takes no writes, as a standby does (25006), has no
 * room on its disk (53100, 58030), or refuses a password (28000, 28P01): while that is rotated another connection may be taken. https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const SQLSTATE = /^(08[0-9A-Z]{3}|25006|25P03|28000|28P01|53[13]00|57P0[1235]|58030)$/

/** The code of the loss; null for any other error. A provider's broken connection is another error. */
export function lostDatabase(error: unknown): string | null {
  for (const link of errorChain(error)) {
    const code = field(link, 'code')
    if (typeof code !== 'string') continue
    if (DRIVER_CODES.has(code)) return code
    if (isDatabaseError(link) && (SQLSTATE.test(code) || isConnectionFault({ code }))) return code
  }
  return null
}
