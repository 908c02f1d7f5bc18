/**
 * Connections, and requests through them. What is checked is what is dialled, so a name that resolves to another address the next
 * time (DNS rebinding) finds no gap between check and use.
 * Rule: docs/behaviour/egress.md, "When it is checked".
 */
import type { LookupAddress, LookupAllOptions, LookupOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { buildConnector, Dispatcher, Pool, Response as UndiciResponse } from 'undici'
import type { EgressRefused } from '../framework/errors.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { untilAborted } from '../framework/waiting.ts'
import { bareHost } from './address-rules.ts'
import { parseAddress } from './addresses.ts'
import type { EgressRules, Scheme } from './egress-policy.ts'
import type { Hop } from './redirects.ts'

/** `dns.lookup` asked for all addresses. */
export type LookupAll = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** How deep `fetch failed` and the like hide the failure. */
const MAX_CAUSES = 10

/**
 * Without a byte of the answer. Above the longest `timeoutMs` of a call, 600 s, so that the signal decides; undici's own 300 s
 * would be the end of a slow call. It still ends an answer that its receiver has left unread.
 */
const SILENCE_TIMEOUT_MS = 660_000
/**
 * Of one of several addresses, where Node (20 and 22) would wait for 250 ms: too short for another continent, or for a lost packet.
 * https://nodejs.org/api/net.html#socketconnectoptions-connectlistener
 */
const ADDRESS_TIMEOUT_MS = 2_500

/** Of the undici package's class, or of the platform's. */
export type HopAnswer = UndiciResponse | Response

/** Connections that are opened by one set of rules. */
export interface Route {
  /** One hop. */
  send(hop: Hop, signal: AbortSignal | null): Promise<HopAnswer>
  close(): Promise<void>
}

export interface RouteOptions {
  /** URL of an HTTP proxy. */
  readonly proxy: string | undefined
  readonly lookup: LookupAll
  readonly connectTimeoutMs: number
}

export function openRoute(rules: EgressRules, { proxy, lookup: ask, connectTimeoutMs }: RouteOptions): Route {
  const lookup = joined(ask)
  let isClosed = false

  /** Opened with the first call: most processes make none of this kind. */
  const open = async () => {
    const { Agent, Dispatcher: Base, Pool, ProxyAgent, buildConnector, fetch } = await import('undici')
    const timeout = connectTimeoutMs
    const patience = { timeout, autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS }
    // Given with each call: neither the environment's proxies nor a dispatcher of the host's own gets in between.
    const dispatcher: Dispatcher =
      proxy === undefined
        ? new Agent({
            connect: guardedConnector(rules, {
              'http:': buildConnector({ ...patience, lookup: guardedLookup(rules, 'http:', lookup) }),
              'https:': buildConnector({ ...patience, lookup: guardedLookup(rules, 'https:', lookup) }),
            }),
          })
        : new ProxyAgent({
            uri: proxy,
            proxyTunnel: false,
            proxyTls: patience,
            clientFactory: (origin, options) =>
              tunnelsOf(new Base(), new Pool(origin, { ...options, headersTimeout: timeout })),
          })
    // So that a first call after the end fails as any later one does, and leaves nothing open.
    if (isClosed) await dispatcher.destroy()
    // With each request: a proxy's agent does not hand its own options on.
    const patient = dispatcher.compose(
      (dispatch) => (options, handler) =>
        dispatch({ ...options, headersTimeout: SILENCE_TIMEOUT_MS, bodyTimeout: SILENCE_TIMEOUT_MS }, handler),
    )
    return { fetch, dispatcher: patient }
  }
  let opened: ReturnType<typeof open> | undefined

  /** The proxy dials, and resolves the name again: the check can only come before. */
  const checkForProxy = async (url: URL): Promise<void> => {
    const { hostname } = url
    const scheme = schemeOf(url)
    rules.checkHost(hostname, scheme)
    const isName = parseAddress(bareHost(hostname)) === null
    if (isName && !rules.isTrusted(hostname)) await resolve(rules, lookup, { hostname, scheme })
  }

  return {
    send: async ({ url, method, headers, body }, signal) => {
      // A name can take long to resolve, and a look-up can't be cancelled.
      if (proxy !== undefined) await (signal === null ? checkForProxy(url) : untilAborted(checkForProxy(url), signal))
      opened ??= open()
      const { fetch, dispatcher } = await opened
      try {
        return await fetch(url.href, {
          method,
          headers: [...headers],
          body,
          signal,
          dispatcher,
          redirect: 'manual',
          ...(body instanceof ReadableStream ? { duplex: 'half' as const } : {}),
        })
      } catch (error) {
        throw refusalIn(error) ?? error
      }
    },
    close: async () => {
      isClosed = true
      await (await opened)?.dispatcher.destroy()
    },
  }
}

/** Errors of a proxy that gives no tunnel: nothing of the request has left this machine, as where no connection stands. */
const NO_TUNNEL_CODES: ReadonlyMap<unknown, string> = new Map([
  ['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT'],
  ['UND_ERR_SOCKET', 'ECONNREFUSED'],
  ['ECONNRESET', 'ECONNREFUSED'],
])

/** What ProxyAgent asks for tunnels: it only connects, and closes. */
function tunnelsOf(base: Dispatcher, pool: Pool): Dispatcher {
  return Object.assign(base, {
    connect: (options: Dispatcher.ConnectOptions) => openTunnel(pool, options),
    close: () => pool.close(),
    destroy: () => pool.destroy(),
  })
}

/** ProxyAgent's own error of a refused tunnel reads like an abort in the middle of a request. */
async function openTunnel(pool: Pool, options: Dispatcher.ConnectOptions): Promise<Dispatcher.ConnectData> {
  let tunnel: Dispatcher.ConnectData
  try {
    tunnel = await pool.connect(options)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const own = NO_TUNNEL_CODES.get(code)
    throw own === undefined ? error : noTunnel(own, message)
  }
  if (tunnel.statusCode === 200) return tunnel
  tunnel.socket.on('error', () => {}).destroy()
  throw noTunnel('ECONNREFUSED', `it answered ${tunnel.statusCode}`)
}

function noTunnel(code: string, why: string): Error {
  return Object.assign(new Error(`the proxy gives no connection to the host: ${why}`), { code })
}

/** The URL of a hop has one of the two: any other is refused before. */
export function schemeOf({ protocol }: URL): Scheme {
  return protocol === 'https:' ? 'https:' : 'http:'
}

/** The refusal below `fetch failed`, which itself says nothing. */
function refusalIn(error: unknown): EgressRefused | null {
  let link: unknown = error
  for (let depth = 0; depth < MAX_CAUSES && link instanceof Error; depth += 1) {
    if (isIntegrationsError(link, 'egress_refused')) return link as EgressRefused
    link = link.cause
  }
  return null
}

/** @param connectBy opens the connection, by way of {@link guardedLookup} of that scheme */
function guardedConnector(
  rules: EgressRules,
  connectBy: Readonly<Record<Scheme, buildConnector.connector>>,
): buildConnector.connector {
  return (options, callback) => {
    const scheme = options.protocol === 'https:' ? 'https:' : 'http:'
    try {
      // Node asks no lookup about an address.
      rules.checkHost(options.hostname, scheme)
    } catch (refusal) {
      callback(refusal as Error, null)
      return
    }
    connectBy[scheme](options, callback)
  }
}

/** Gives the checked addresses and no others, as many as the socket asks for. */
function guardedLookup(rules: EgressRules, scheme: Scheme, lookup: LookupAll): LookupFunction {
  return (hostname, options: LookupOptions, callback) => {
    resolve(rules, lookup, { hostname, scheme, options }).then(
      ([first, ...others]) => {
        if (options.all) callback(null, [first, ...others])
        else callback(null, first.address, first.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, options.all ? [] : ''),
    )
  }
}

/**
 * Look-ups of one name at the same time are one. The platform makes few at a time for the whole process
 * (https://nodejs.org/api/cli.html#uv_threadpool_sizesize), so a name that takes long must not take several.
 */
function joined(lookup: LookupAll): LookupAll {
  const underWay = new Map<string, Parameters<LookupAll>[2][]>()
  return (hostname, options, callback) => {
    const key = JSON.stringify([hostname, options])
    const waiting = underWay.get(key)
    if (waiting !== undefined) {
      waiting.push(callback)
      return
    }
    const callbacks = [callback]
    underWay.set(key, callbacks)
    lookup(hostname, options, (error, addresses) => {
      underWay.delete(key)
      for (const each of callbacks) each(error, addresses)
    })
  }
}

/** Every address of a host, all of them checked. @throws EgressRefused, or the resolver's error */
async function resolve(
  rules: EgressRules,
  lookup: LookupAll,
  {
    hostname,
    scheme,
    options = {},
  }: { readonly hostname: string; readonly scheme: Scheme; readonly options?: LookupOptions },
): Promise<[LookupAddress, ...LookupAddress[]]> {
  const addresses = await new Promise<LookupAddress[]>((done, fail) => {
    lookup(hostname, { ...options, all: true }, (error, found) => (error === null ? done(found) : fail(error)))
  })
  const [first, ...others] = addresses
  if (first === undefined) {
    throw Object.assign(new Error(`no address was found for "${hostname}"`), { code: 'ENOTFOUND', hostname })
  }
  rules.checkAddresses(
    hostname,
    scheme,
    addresses.map(({ address }) => address),
  )
  return [first, ...others]
}
