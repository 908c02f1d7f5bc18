/** A `fetch` that reaches public addresses only. Rule: docs/behaviour/egress.md. */

import { lookup as dnsLookup } from 'node:dns'
import { EgressRefused, InvalidArgumentException, ResponseTooLarge } from '../framework/errors.ts'
import { redactText } from '../framework/redaction.ts'
import { EgressRules } from './egress-policy.ts'
import type { Hop } from './redirects.ts'
import { checkUrl, isRedirect, MAX_REDIRECTS, nextHop } from './redirects.ts'
import type { HopAnswer, LookupAll, Route } from './route.ts'
import { openRoute } from './route.ts'

export interface EgressPolicy {
  /** Hosts and CIDR ranges that are reached though they are private, or asked by http. */
  readonly allow?: readonly string[]
  /** Hosts and CIDR ranges that are never reached; wins over `allow`. */
  readonly deny?: readonly string[]
  /** URL of an HTTP proxy; the environment's are ignored. */
  readonly proxy?: string
}

export interface GuardedFetchOptions {
  /** Header names that another origin never sees. */
  readonly secretHeaders?: readonly string[]
  /** Values that another origin never sees: a header that holds one of them is not sent there. Asked at a redirect. */
  readonly secrets?: () => readonly string[]
  /** A keyed write follows no redirect. */
  readonly followRedirects?: boolean
  /** Decoded bytes of a body at most. Default 10 MiB. */
  readonly maxBytes?: number
  /** Aborts the call, its body included, beside a signal that a call gives itself. */
  readonly signal?: AbortSignal
  /** Reaches addresses that are not public, too; what `deny` names stays out of reach. For URLs that an operator has set. */
  readonly allowPrivate?: boolean
}

export interface Egress {
  fetch(options?: GuardedFetchOptions): typeof fetch
  /** Also ends requests under way. A later call fails. */
  close(): Promise<void>
}

/** For tests: the resolver, the time limit of a connection, and a replacement for connections. */
export interface EgressInternals {
  readonly lookup?: LookupAll
  readonly connectTimeoutMs?: number
  /** Default: sockets, by way of the proxy where there is one. It has to ask the rules about each hop itself. */
  readonly openRoute?: (rules: EgressRules) => Route
}

const CONNECT_TIMEOUT_MS = 10_000
const MAX_BODY_BYTES = 10 * 1024 * 1024
const EVERY_ADDRESS = ['0.0.0.0/0', '::/0']
/** Statuses that a `Response` with a body can't have: https://fetch.spec.whatwg.org/#null-body-status */
const NULL_BODY_STATUSES: ReadonlySet<number> = new Set([204, 205, 304])

/** @throws InvalidArgumentException for an invalid rule or proxy */
export function createEgress(
  policy: EgressPolicy = {},
  { lookup = dnsLookup, connectTimeoutMs = CONNECT_TIMEOUT_MS, openRoute: openGiven }: EgressInternals = {},
): Egress {
  const proxy = policy.proxy === undefined ? undefined : proxyUrl(policy.proxy)
  const open = openGiven ?? ((rules: EgressRules) => openRoute(rules, { proxy, lookup, connectTimeoutMs }))
  const toPublic = open(new EgressRules(policy))
  // Connections of its own: a call must not use a kept-alive connection that it was not allowed to open.
  const toAny = open(new EgressRules({ ...policy, allow: [...(policy.allow ?? []), ...EVERY_ADDRESS] }))

  return {
    fetch:
      ({
        secretHeaders = [],
        secrets = () => [],
        followRedirects = true,
        maxBytes = MAX_BODY_BYTES,
        signal: ownSignal,
        allowPrivate = false,
      } = {}) =>
      async (input, init) => {
        const { send } = allowPrivate ? toAny : toPublic
        const given = await firstHop(input, init)
        const signal = anyOf([ownSignal, given.signal])
        let { hop } = given
        for (let redirects = 0; ; redirects += 1) {
          const answer = await send(hop, signal)
          const isFollowed = followRedirects && given.redirect !== 'manual' && isRedirect(answer)
          if (!isFollowed) return responseOf(answer, { url: hop.url, isRedirected: redirects > 0, maxBytes, signal })
          await answer.body?.cancel()
          if (given.redirect === 'error')
            throw new EgressRefused(hop.url.hostname, 'it redirects, and the call follows none')
          if (redirects === MAX_REDIRECTS) {
            throw new EgressRefused(hop.url.hostname, `it redirects after ${MAX_REDIRECTS} redirects`)
          }
          hop = nextHop(hop, answer.status, answer.headers.get('location') ?? '', [
            ...lowerCase(secretHeaders),
            ...holding(hop.headers, secrets()),
          ])
        }
      },
    close: async () => {
      await Promise.all([toPublic.close(), toAny.close()])
    },
  }
}

/** The request that the arguments of `fetch` describe. */
async function firstHop(
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<{ hop: Hop; redirect: Request['redirect']; signal: AbortSignal | null }> {
  const text = input instanceof Request ? input.url : String(input)
  // Before `new Request()`: its own refusals quote the URL, and with it what the query or the user info holds.
  if (!URL.canParse(text)) throw new InvalidArgumentException('url', 'must be an absolute http(s) URL')
  const url = new URL(text)
  checkUrl(url)
  const request = new Request(input, init)
  const isStream = init?.body instanceof ReadableStream || isAsyncIterable(init?.body)
  // Kept in memory, so that a redirect can ask for it again; a stream is sent as it comes.
  const body = isStream || request.body === null ? request.body : new Uint8Array(await request.arrayBuffer())
  const signal = init?.signal === undefined && input instanceof Request ? input.signal : (init?.signal ?? null)
  return { hop: { url, method: request.method, headers: request.headers, body }, redirect: request.redirect, signal }
}

/** A `Response` of the platform's own class, which callers expect; the undici package has another one. */
function responseOf(
  answer: HopAnswer,
  {
    url,
    isRedirected,
    maxBytes,
    signal,
  }: { url: URL; isRedirected: boolean; maxBytes: number; signal: AbortSignal | null },
): Response {
  const { status, ok, statusText } = answer
  const stream = NULL_BODY_STATUSES.has(status) ? null : (answer.body as ReadableStream<Uint8Array> | null)
  // LinkedIn answers 999, and IIS a phrase in the server's language: the constructor refuses both.
  const response = new Response(stream === null ? null : limitedBody(stream, maxBytes, signal), {
    status: status >= 200 && status <= 599 ? status : 200,
    headers: [...answer.headers],
  })
  const values = { url: withoutFragment(url), redirected: isRedirected, status, statusText, ok }
  for (const [name, value] of Object.entries(values)) Object.defineProperty(response, name, { value, enumerable: true })
  return response
}

function anyOf(signals: readonly (AbortSignal | null | undefined)[]): AbortSignal | null {
  const [first, ...others] = new Set(signals.filter((signal) => signal !== null && signal !== undefined))
  if (first === undefined) return null
  return others.length === 0 ? first : AbortSignal.any([first, ...others])
}

function proxyUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new InvalidArgumentException('egress.proxy', 'must be an absolute http(s) URL')
  }
  return text
}

function withoutFragment(url: URL): string {
  return url.href.replace(/#.*$/, '')
}

/** Names of the headers whose values hold one of the secrets, in any spelling. */
function holding(headers: Headers, secrets: readonly string[]): string[] {
  return [...headers].filter(([, value]) => redactText(value, secrets) !== value).map(([name]) => name)
}

function lowerCase(names: readonly string[]): string[] {
  return names.map((name) => name.toLowerCase())
}

function isAsyncIterable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

/**
 * An answer's body, counted while it streams. Rule: docs/behaviour/egress.md, "Limits".
 *
 * @param body decoded: a small gzip may hold a very large text
 * @param signal aborts the reading too; the stream holds on to it
 */
function limitedBody(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  signal: AbortSignal | null,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let seenBytes = 0
  let onAbort = () => {}
  const stopListening = () => signal?.removeEventListener('abort', onAbort)
  /** Closes the connection. An error of that is dropped: the stream is not read any more. */
  const drop = (reason: unknown) => {
    stopListening()
    reader.cancel(reason).catch(() => {})
  }
  return new ReadableStream<Uint8Array>({
    start(controller) {
      onAbort = () => {
        controller.error(signal?.reason)
        drop(signal?.reason)
      }
      if (signal?.aborted) onAbort()
      else signal?.addEventListener('abort', onAbort, { once: true })
    },
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (signal?.aborted) return
        if (done) {
          stopListening()
          controller.close()
          return
        }
        seenBytes += value.byteLength
        if (seenBytes > maxBytes) throw new ResponseTooLarge(maxBytes)
        controller.enqueue(value)
      } catch (error) {
        drop(error)
        if (!signal?.aborted) controller.error(error)
      }
    },
    cancel: drop,
  })
}
