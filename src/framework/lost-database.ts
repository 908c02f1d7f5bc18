/** Whether Postgres went away under a statement. Rule: docs/commands.md, "Exit codes". */
import { errorChain, isConnectionFault, isDatabaseError } from '../calls/failure-class-rules.ts'
import { field } from './thrown.ts'

/** postgres.js' own (https://github.com/porsager/postgres#error-handling), and db/pool.ts' for a statement without an answer. */
const DRIVER_CODES: ReadonlySet<string> = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'STATEMENT_TIMEOUT',
])

/**
 * Of the server: the whole class 08, no connection left, and what it says when it stops, has crashed, starts or ends an idle
 * session, in a transaction (25P03) or outside of one. https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const SQLSTATE = /^(08[0-9A-Z]{3}|25P03|53300|57P0[1235])$/

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
