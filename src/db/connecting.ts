/**
 * How a connection is made: its socket, its password, and whether its server takes writes. The driver's own ways (3.4.9) try without an
 * end, or end the process. Rule: docs/behaviour/database.md, "Lost connections" and "Failover".
 */
import type { Socket } from 'node:net'
import { createConnection } from 'node:net'
import type { Sql } from 'postgres'
import postgres from 'postgres'

const STANDBY = 'STANDBY'

/** Of one of several addresses of a name: Node's 250 ms are too short for a lost packet. */
const ADDRESS_TIMEOUT_MS = 2_500

/**
 * The driver opens a connection again, without a pause and without an end, that was closed before the server had answered: a proxy
 * without a server behind it does so. Here the second try fails instead. It also asks for a socket to cancel a statement; then the first
 * one is still open.
 */
export function socketOfOneTry(options: Sql['options']): (options: unknown) => Promise<Socket> {
  const { host, port, path } = options
  const { socket: given } = options as { readonly socket?: (options: unknown) => unknown }
  let first: Socket | undefined
  let fault: Error | undefined
  const open = (): Socket => {
    // The driver writes at once; what is written waits for the connection.
    const socket = path
      ? createConnection(String(path))
      : createConnection({ port: port[0] ?? 5432, host: host[0], autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS })
    // What the system refuses at once, such as a network that is down, comes before the driver listens.
    socket.once('error', (error) => {
      fault = error
    })
    return Object.assign(socket, { host: host[0], port: port[0] })
  }
  return async (own: unknown) => {
    if (first?.destroyed)
      throw fault ?? connectionError('CONNECTION_CLOSED', 'the connection was closed before the server had answered')
    const socket = (await (given ?? open)(own)) as Socket
    first ??= socket
    return socket
  }
}

/**
 * A password that a function gives, such as a token for some minutes. The driver stands neither its rejection nor an answer for a
 * connection that is gone: both would end the process. Here a rejection goes to `onFault`, which gives the connection up.
 *
 * @param isOpen whether the connection still waits for it
 */
export function passwordOf(options: Sql['options'], isOpen: () => boolean, onFault: (error: Error) => void): unknown {
  const { pass } = options as { readonly pass?: unknown }
  if (typeof pass !== 'function') return pass
  return async (): Promise<unknown> => {
    let password: unknown
    try {
      password = await pass()
    } catch (error) {
      onFault(error instanceof Error ? error : new Error(String(error)))
    }
    return isOpen() ? password : new Promise(() => {})
  }
}

/** Whether the server is a standby, or its administrator has ordered it to take no writes. */
export async function readsOnly(client: Sql): Promise<boolean> {
  const [row] = await client.unsafe<{ is: boolean }[]>(`select current_setting('transaction_read_only') = 'on' as is`)
  return row?.is === true
}

/** In place of an answer of one of several servers, which takes no writes. */
export const standbyError = (): Error => connectionError(STANDBY, 'the server takes no writes')

export const isStandbyError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === STANDBY

/**
 * The server has become a standby (read_only_sql_transaction). Its other connections lead to the same place, where reads still work, on
 * rows that grow old: after a failover only a new connection finds the primary.
 */
export function isReadOnly(error: unknown): error is Error {
  return error instanceof postgres.PostgresError && error.code === '25006'
}

/** In the driver's words: framework/lost-database.ts knows it by its code. */
export function connectionError(code: string, message: string): Error {
  return Object.assign(new Error(`Postgres: ${message}`), { code })
}
