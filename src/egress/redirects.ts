/**
 * Where a redirect leads, and what goes along: the fetch standard, "HTTP-redirect fetch"
 * (https://fetch.spec.whatwg.org/#http-redirect-fetch), with our own limits: a body is for the origin that it was written for.
 * Rule: docs/behaviour/egress.md, "Redirects".
 */
import { EgressRefused } from '../framework/errors.ts'

/** One request on the wire. */
export interface Hop {
  readonly url: URL
  readonly method: string
  readonly headers: Headers
  /** A stream can be sent once only. */
  readonly body: Uint8Array | ReadableStream<Uint8Array> | null
}

export const MAX_REDIRECTS = 5

const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
/** They describe a body that is not sent on. */
const BODY_HEADERS = ['content-encoding', 'content-language', 'content-location', 'content-type', 'content-length']
/** Meant for one origin. */
const ORIGIN_HEADERS = ['authorization', 'cookie', 'proxy-authorization', 'host']

/** Whether the answer sends to another place. Without a `Location` it is an answer like any other. */
export function isRedirect(answer: {
  readonly status: number
  readonly headers: { has(name: string): boolean }
}): boolean {
  return REDIRECT_STATUSES.has(answer.status) && answer.headers.has('location')
}

/**
 * @param location as the answer's header has it, relative or absolute
 * @param secretHeaders lower case; not shown to another origin
 * @throws EgressRefused
 */
export function nextHop(hop: Hop, status: number, location: string, secretHeaders: readonly string[]): Hop {
  // The text of a header has one character a byte, and the URL in it may be UTF-8.
  const target = Buffer.from(location, 'latin1').toString()
  if (!URL.canParse(target, hop.url.href)) throw new EgressRefused(hop.url.hostname, 'it redirects to what is no URL')
  const url = new URL(target, hop.url)
  checkUrl(url)
  if (hop.url.protocol === 'https:' && url.protocol === 'http:') {
    throw new EgressRefused(url.hostname, 'an https URL redirects to it without TLS')
  }
  const headers = new Headers(hop.headers)
  const isElsewhere = url.origin !== hop.url.origin
  if (isElsewhere) for (const name of [...ORIGIN_HEADERS, ...secretHeaders]) headers.delete(name)
  if (!becomesGet(status, hop.method)) {
    if (isElsewhere && hop.body !== null) {
      throw new EgressRefused(url.hostname, 'a redirect asks for the body at another origin. Call that one itself')
    }
    if (hop.body instanceof ReadableStream) {
      throw new EgressRefused(url.hostname, 'a redirect asks for the body again, and a stream is sent once only')
    }
    return { ...hop, url, headers }
  }
  for (const name of BODY_HEADERS) headers.delete(name)
  return { url, method: 'GET', headers, body: null }
}

/** http or https, without user info. @throws EgressRefused */
export function checkUrl(url: URL): void {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new EgressRefused(url.hostname, `only http and https URLs are, not ${url.protocol}`)
  }
  if (url.username !== '' || url.password !== '') throw new EgressRefused(url.hostname, 'its URL holds user info')
}

function becomesGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD'
  return (status === 301 || status === 302) && method === 'POST'
}
