/**
 * Which authorization server a provider speaks to, and what it says of itself (RFC 8414; OpenID Connect Discovery 1.0).
 * Rule: docs/writing-a-provider.md, "OAuth 2.0".
 */
import type { AuthorizationServer, allowInsecureRequests, HttpRequestOptions } from 'oauth4webapi'
import { isLoopback } from '../access/rules.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Integration, RequestContext } from './integration.ts'
import type { OAuth2Library } from './oauth2-answer.ts'
import { oauth2Library, readable, refuseFailure } from './oauth2-answer.ts'

/** Where an authorization server is asked. Given with an `authorization` and a `token`, nothing else is looked up. */
export interface OAuth2Endpoints {
  readonly authorization?: string
  readonly token?: string
  readonly revocation?: string
}

export interface OAuth2Server {
  /** Where its metadata is; exactly as the metadata names itself. */
  readonly issuer?: string | undefined
  readonly endpoints?: OAuth2Endpoints
}

/** `oidc`: `<issuer>/.well-known/openid-configuration`; `oauth2`: `/.well-known/oauth-authorization-server`. */
export type OAuth2Discovery = 'oidc' | 'oauth2'

/** Endpoints hardly ever move; where one has moved, no process asks the old one for longer. */
const LIFETIME_MS = 3_600_000
/** A refresh waits for it under its lock, of 30 seconds by default. */
const DISCOVERY = { attempts: 2, timeoutMs: 10_000 }

/** What issuers have said of themselves within the hour. What failed is not kept: the next call asks again. */
export class DiscoveredServers {
  readonly #found = new Map<string, { readonly server: AuthorizationServer; readonly until: number }>()

  /** @throws InvalidArgumentException where neither the author nor the metadata names what is needed */
  async find(
    integration: Integration,
    { issuer, endpoints = {} }: OAuth2Server,
    algorithm: OAuth2Discovery,
  ): Promise<AuthorizationServer> {
    const isWhole = endpoints.authorization !== undefined && endpoints.token !== undefined
    if (!isWhole && issuer === undefined)
      throw new InvalidArgumentException(
        'issuer',
        'an issuer is needed, or `endpoints` with an `authorization` and a `token`; there is neither',
      )
    const said = isWhole || issuer === undefined ? null : await this.#discovered(integration, issuer, algorithm)
    return {
      // Without an issuer it is only a label: an answer's own issuer is never compared with it.
      issuer: issuer ?? checkedUrl('token_endpoint', endpoints.token ?? '').origin,
      ...endpoint('authorization_endpoint', endpoints.authorization ?? said?.authorization_endpoint),
      ...endpoint('token_endpoint', endpoints.token ?? said?.token_endpoint),
      ...endpoint('revocation_endpoint', endpoints.revocation ?? said?.revocation_endpoint),
    }
  }

  async #discovered(
    integration: Integration,
    issuer: string,
    algorithm: OAuth2Discovery,
  ): Promise<AuthorizationServer> {
    const now = Date.now()
    const key = `${algorithm} ${issuer}`
    const known = this.#found.get(key)
    if (known !== undefined && now < known.until) return known.server
    const server = await discover(integration, checkedUrl('issuer', issuer), algorithm)
    if (server.issuer !== issuer)
      throw new InvalidArgumentException(
        'issuer',
        `must be exactly what the metadata says (RFC 8414, section 3.3), ${server.issuer}; ${issuer} was given`,
      )
    for (const [other, { until }] of this.#found) if (until <= now) this.#found.delete(other)
    this.#found.set(key, { server, until: now + LIFETIME_MS })
    return server
  }
}

async function discover(
  integration: Integration,
  issuer: URL,
  algorithm: OAuth2Discovery,
): Promise<AuthorizationServer> {
  const library = await oauth2Library()
  const path = issuer.pathname.replace(/\/$/, '')
  const endpoint =
    algorithm === 'oidc' ? `${path}/.well-known/openid-configuration` : `/.well-known/oauth-authorization-server${path}`
  return integration.request(
    endpoint,
    'GET',
    async (context) => {
      const answer = await library.discoveryRequest(issuer, { ...clientOptions(library, context, issuer), algorithm })
      context.report({ statusCode: answer.status })
      await refuseFailure(answer, [])
      return readable(endpoint, () => library.processDiscoveryResponse(issuer, answer))
    },
    DISCOVERY,
  )
}

interface SentRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** How every request of the client is made: by the call's own `fetch`, and never insecurely but on this very machine. */
export function clientOptions<Method, Body>(
  library: OAuth2Library,
  context: RequestContext,
  url: URL,
  change: (request: SentRequest) => SentRequest = (request) => request,
): HttpRequestOptions<Method, Body> & { [allowInsecureRequests]: boolean } {
  return {
    [library.customFetch](target, { method, headers, body, redirect, signal }) {
      const hasBody = body !== undefined && body !== null
      // A form, as a text: a hook may give another one.
      const sent = change({ url: target, headers, body: hasBody ? String(body) : '' })
      const address = sent.url === target ? target : checkedUrl('tokenRequest().url', sent.url).href
      return context.fetch(address, {
        method: String(method),
        headers: { ...sent.headers },
        redirect,
        ...(hasBody ? { body: sent.body } : {}),
        ...(signal === undefined ? {} : { signal }),
      })
    },
    [library.allowInsecureRequests]: url.protocol === 'http:' && isLoopback(url.hostname),
  }
}

/** @throws InvalidArgumentException unless it is https, or http on this very machine (RFC 9700, section 2.6) */
export function checkedUrl(argument: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  const isSecure = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  if (url !== null && isSecure && url.username === '' && url.password === '') return url
  throw new InvalidArgumentException(
    argument,
    `an https URL without user info is allowed, or an http one of localhost; ${url === null ? 'no URL' : `${url.protocol}//${url.host}`} was given`,
  )
}

function endpoint(name: string, text: string | undefined): Record<string, string> {
  return text === undefined ? {} : { [name]: checkedUrl(name, text).href }
}
