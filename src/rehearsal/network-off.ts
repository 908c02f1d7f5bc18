/**
 * Turns a process' network off, but for one database. For a process that is made for a rehearsal: it replaces Node's own functions.
 *
 * Rule: docs/behaviour/rehearsal.md, "Without a network".
 */
import childProcess from 'node:child_process'
import dgram from 'node:dgram'
import dns from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import tls from 'node:tls'
import type { Startup } from '../db/startup-message-rules.ts'
import { startupOf } from '../db/startup-message-rules.ts'

/** What stays within reach. */
export interface Reachable {
  readonly servers: readonly { readonly host: string; readonly port: number }[]
  /** Of a Unix socket; null: none. */
  readonly path: string | null
  readonly database: string
}

export interface NetworkOff {
  /** What was refused since the last call. */
  take(): readonly string[]
  /** Node's own functions again. */
  restore(): void
}

/** Node's own code, with which a library tells that the network is away. */
const UNREACHABLE = 'ENETUNREACH'

class NetworkIsOff extends Error {
  override readonly name = 'NetworkIsOff'
  readonly code = UNREACHABLE
  constructor(what: string) {
    super(
      `A rehearsal has no network: ${what} was refused. Calls by integration.request() are answered from the request log.`,
    )
  }
}

type Replaced = { readonly [name: string]: unknown }

export function networkOff(reachable: Reachable): NetworkOff {
  const refused: string[] = []
  const refuse = (what: string): NetworkIsOff => {
    refused.push(what)
    return new NetworkIsOff(what)
  }
  const originals: { readonly holder: Replaced; readonly name: string; readonly original: unknown }[] = []
  const replace = (holder: object, name: string, make: (original: Anything) => Anything): void => {
    const original = Reflect.get(holder, name) as Anything
    if (typeof original !== 'function') return
    originals.push({ holder: holder as Replaced, name, original })
    Reflect.set(holder, name, make(original))
  }

  const checked = new WeakSet<net.Socket>()
  const check = (socket: net.Socket): void => {
    checked.add(socket)
    onlyFor(reachable.database, socket, refuse)
  }
  replace(
    net.Socket.prototype,
    'connect',
    (original) =>
      function (this: net.Socket & { connecting: boolean }, ...given: unknown[]) {
        const target = targetOf(given)
        if (!isReachable(target, reachable)) {
          const error = refuse(`a connection to ${nameOf(target)}`)
          // As a connection that fails: the caller has yet to listen, and what is written meanwhile waits.
          this.connecting = true
          setImmediate(() => this.destroy(error))
          return this
        }
        const socket = original.apply(this, given) as net.Socket
        // After it: it puts the socket's own `write` back.
        check(this)
        return socket
      },
  )
  // Over a connection that has been checked: the database's name comes after the handshake.
  replace(tls, 'connect', (original) => (...given: unknown[]) => {
    const socket = original(...given) as tls.TLSSocket
    const { socket: below } = (given.find((one) => typeof one === 'object' && one !== null) ?? {}) as {
      socket?: net.Socket
    }
    if (below !== undefined && checked.has(below)) check(socket)
    return socket
  })
  for (const name of ['send', 'connect'])
    replace(dgram.Socket.prototype, name, () => () => {
      throw refuse('a datagram')
    })
  const hosts = new Set(reachable.servers.map(({ host }) => host))
  for (const [holder, isAsync] of [
    [dns, false],
    [dns.Resolver.prototype, false],
    [dns.promises, true],
    [dns.promises.Resolver.prototype, true],
  ] as const)
    for (const name of Object.getOwnPropertyNames(holder).filter((name) => /^(lookup|resolve|reverse)/.test(name)))
      replace(
        holder,
        name,
        (original) =>
          function (this: unknown, ...given: unknown[]) {
            const [host] = given
            if (typeof host === 'string' && (hosts.has(host) || net.isIP(host) !== 0))
              return original.apply(this, given)
            const error = refuse(`the look-up of ${String(host)}`)
            if (isAsync) return Promise.reject(error)
            const callback = given.at(-1)
            if (typeof callback === 'function') process.nextTick(callback as (error: Error) => void, error)
            return undefined
          },
      )
  for (const name of ['spawn', 'spawnSync', 'exec', 'execSync', 'execFile', 'execFileSync', 'fork'])
    replace(childProcess, name, () => (command: unknown) => {
      throw refuse(`the program ${String(command).split(/\s/)[0]}`)
    })
  syncBuiltinESMExports()

  return {
    take: () => refused.splice(0),
    restore() {
      for (const { holder, name, original } of originals.splice(0).reverse()) Reflect.set(holder, name, original)
      syncBuiltinESMExports()
    },
  }
}

// biome-ignore lint/suspicious/noExplicitAny: functions of Node, which have many signatures; they are only passed on.
type Anything = (...given: any[]) => any

interface Target {
  readonly host?: string
  readonly port?: number
  readonly path?: string
}

/** Of the forms of `socket.connect()`: options, a port and a host, a path, and the list that `net.connect()` makes of them. */
function targetOf(given: readonly unknown[]): Target {
  const [first, second] = Array.isArray(given[0]) ? (given[0] as unknown[]) : given
  if (typeof first === 'object' && first !== null) {
    const { host = 'localhost', port, path } = first as Target
    return path === undefined || path === null ? { host, port: Number(port) } : { path }
  }
  if (typeof first === 'string' && !/^\d+$/.test(first)) return { path: first }
  return { host: typeof second === 'string' ? second : 'localhost', port: Number(first) }
}

function isReachable({ host, port, path }: Target, reachable: Reachable): boolean {
  if (path !== undefined) return path === reachable.path
  return reachable.servers.some((server) => server.host === host && server.port === port)
}

const nameOf = ({ host, port, path }: Target): string => path ?? `${host}:${port}`

/**
 * The live database may be on the copy's own server. The first message of a session names its database
 * (https://www.postgresql.org/docs/current/protocol-flow.html), so each session's is read before it is sent.
 */
function onlyFor(database: string, socket: net.Socket, refuse: (what: string) => Error): void {
  const write = socket.write
  const end = (): void => {
    socket.write = write
  }
  socket.write = function (this: net.Socket, ...given: unknown[]) {
    const startup: Startup = startupOf(given[0])
    if (startup.kind === 'encryption') return Reflect.apply(write, this, given) as boolean
    if (startup.kind === 'cancel' || (startup.kind === 'session' && startup.database === database)) {
      end()
      return Reflect.apply(write, this, given) as boolean
    }
    const what = startup.kind === 'session' ? `the database ${startup.database}` : 'something beside Postgres'
    this.destroy(refuse(`${what} on the server of the copy`))
    return false
  } as typeof write
}
