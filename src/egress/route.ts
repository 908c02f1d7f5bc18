/** Connections, and what is asked through them. Rule: docs/behaviour/egress.md, "When it is checked". */
import type { Dispatcher, Response as UndiciResponse } from 'undici'
import type { EgressRefused } from '../framework/errors.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { bareHost } from './address-rules.ts'
import { parseAddress } from './addresses.ts'
import type { LookupAll } from './connector.ts'
import { guardedConnector, guardedLookup, resolve } from './connector.ts'
import type { EgressRules, Scheme } from './egress-policy.ts'
import type { Hop } from './redirects.ts'

/** How deep `fetch failed` and the like hide what failed. */
const MAX_CAUSES = 10

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

export function openRoute(rules: EgressRules, { proxy, lookup, connectTimeoutMs }: RouteOptions): Route {
  let isClosed = false

  /** With the first call: most processes make none of this kind. */
  const open = async () => {
    const { Agent, ProxyAgent, buildConnector, fetch } = await import('undici')
    const timeout = connectTimeoutMs
    // Given with each call: neither the environment's proxies nor a dispatcher of the host's own gets in between.
    const dispatcher: Dispatcher =
      proxy === undefined
        ? new Agent({
            connect: guardedConnector(rules, {
              'http:': buildConnector({ timeout, lookup: guardedLookup(rules, 'http:', lookup) }),
              'https:': buildConnector({ timeout, lookup: guardedLookup(rules, 'https:', lookup) }),
            }),
          })
        : new ProxyAgent({ uri: proxy, proxyTunnel: false, proxyTls: { timeout } })
    // So that a first call after the end fails as any later one does, and leaves nothing open.
    if (isClosed) await dispatcher.destroy()
    return { fetch, dispatcher }
  }
  let opened: ReturnType<typeof open> | undefined

  /** The proxy dials, and resolves the name again: all that can be done here is to ask first. */
  const checkForProxy = async (url: URL): Promise<void> => {
    const { hostname } = url
    const scheme = schemeOf(url)
    rules.checkHost(hostname, scheme)
    const isName = parseAddress(bareHost(hostname)) === null
    if (isName && !rules.isTrusted(hostname)) await resolve(rules, lookup, { hostname, scheme })
  }

  return {
    send: async ({ url, method, headers, body }, signal) => {
      if (proxy !== undefined) await orAbort(checkForProxy(url), signal)
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

/** A hop's URL has one of the two: anything else is refused before. */
export function schemeOf({ protocol }: URL): Scheme {
  return protocol === 'https:' ? 'https:' : 'http:'
}

/** `fetch failed` says nothing: the refusal below it is what happened. */
function refusalIn(error: unknown): EgressRefused | null {
  let link: unknown = error
  for (let depth = 0; depth < MAX_CAUSES && link instanceof Error; depth += 1) {
    if (isIntegrationsError(link, 'egress_refused')) return link as EgressRefused
    link = link.cause
  }
  return null
}

/** A name can take long to resolve, and nobody can call it off. */
async function orAbort<T>(work: Promise<T>, signal: AbortSignal | null): Promise<T> {
  if (signal === null) return work
  signal.throwIfAborted()
  let onAbort = () => {}
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
