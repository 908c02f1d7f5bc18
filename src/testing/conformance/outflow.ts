/**
 * A watch on what leaves a provider otherwise than by `context.fetch`: the platform's `fetch`, sockets, the console.
 *
 * Every client socket of Node, of whichever library, is opened by `Socket.connect`, so that is where they are met.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Socket } from 'node:net'
import { inspect } from 'node:util'

export interface Outflow {
  /** What went out past the wire. */
  readonly past: string[]
  /** What was written to the console. */
  readonly printed: string[]
}

const WORDS = ['debug', 'log', 'info', 'warn', 'error'] as const

interface Watch {
  readonly outflow: Outflow
  readonly fetch: typeof globalThis.fetch
}

/** Only what a check does is watched: others may work in the same process. */
const current = new AsyncLocalStorage<Watch>()

/** @param answer what answers the platform's `fetch` meanwhile */
export async function watched<T>(
  outflow: Outflow,
  answer: typeof globalThis.fetch,
  work: () => Promise<T>,
): Promise<T> {
  const restore = watch()
  try {
    return await current.run({ outflow, fetch: answer }, work)
  } finally {
    restore()
  }
}

function watch(): () => void {
  const { fetch } = globalThis
  const { connect } = Socket.prototype
  // What is printed is what is watched here; nothing of ours prints.
  const { console: printer } = globalThis
  const printers = WORDS.map((word) => [word, printer[word]] as const)

  globalThis.fetch = (input, init) => {
    const on = current.getStore()
    if (on === undefined) return fetch(input, init)
    on.outflow.past.push(`the global fetch: ${input instanceof Request ? input.url : String(input)}`)
    return on.fetch(input, init)
  }
  Socket.prototype.connect = function (this: Socket, ...given: unknown[]): Socket {
    const on = current.getStore()
    if (on === undefined) return Reflect.apply(connect, this, given) as Socket
    on.outflow.past.push(`a socket: ${inspect(destination(given), { breakLength: Number.POSITIVE_INFINITY })}`)
    const refused = new Error('the conformance suite opens no connections: call out by context.fetch')
    // Later, as a real one: its caller listens for errors once it has the socket.
    setImmediate(() => this.destroy(Object.assign(refused, { code: 'ECONNREFUSED' })))
    return this
  }
  for (const [word, print] of printers)
    printer[word] = (...given: unknown[]) => {
      current.getStore()?.outflow.printed.push(given.map((each) => inspect(each, { depth: 10 })).join(' '))
      print.apply(printer, given)
    }
  return () => {
    globalThis.fetch = fetch
    Socket.prototype.connect = connect
    for (const [word, print] of printers) printer[word] = print
  }
}

/** Of the arguments of `connect()`, which `net` packs into a list: https://nodejs.org/api/net.html#socketconnect */
function destination(given: readonly unknown[]): unknown {
  const first = Array.isArray(given[0]) ? (given[0] as unknown[])[0] : given[0]
  if (typeof first !== 'object' || first === null) return first
  const { host, port, path } = first as { host?: unknown; port?: unknown; path?: unknown }
  return { host, port, path }
}
