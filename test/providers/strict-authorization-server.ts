/**
 * An authorization server that forgives nothing: clients prove who they are as RFC 6749, 2.3.1, spells it, codes are used
 * once with their redirect URI and verifier, refresh tokens are rotated, and a used one ends the grant.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpServer, Received } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'

export interface StrictServer {
  readonly http: HttpServer
  readonly issuer: string
  /** What the tests change. */
  readonly behaviour: {
    proof: 'client_secret_basic' | 'client_secret_post' | 'none'
    metadata: Record<string, unknown>
    /** Makes something else of a token answer. */
    answer: (body: Record<string, unknown>) => Record<string, unknown>
    /** Answers instead of the server. */
    instead: ((request: Received, response: ServerResponse) => boolean) | null
  }
  /** What the consent of a person gives. */
  code(given: { redirectUri: string; codeChallenge?: string }): string
  /** Tokens that are good. */
  readonly good: Set<string>
  /** Bodies of the requests to a path, as forms. */
  forms(path: string): URLSearchParams[]
}

interface Grant {
  accessToken: string
  refreshToken: string
}

export async function startStrictServer(client: { id: string; secret: string }): Promise<StrictServer> {
  const http = await startHttpServer()
  const codes = new Map<string, { redirectUri: string; codeChallenge?: string }>()
  const byRefreshToken = new Map<string, Grant>()
  const good = new Set<string>()
  const behaviour: StrictServer['behaviour'] = {
    proof: 'client_secret_basic',
    metadata: {
      issuer: http.url,
      authorization_endpoint: `${http.url}/authorize?tenant=1`,
      token_endpoint: `${http.url}/token`,
      revocation_endpoint: `${http.url}/revoke`,
    },
    answer: (body) => body,
    instead: null,
  }
  const issue = (grant: Grant): Record<string, unknown> => {
    good.delete(grant.accessToken)
    good.delete(grant.refreshToken)
    grant.accessToken = `access-${token()}`
    grant.refreshToken = `refresh-${token()}`
    byRefreshToken.set(grant.refreshToken, grant)
    good.add(grant.accessToken).add(grant.refreshToken)
    return {
      access_token: grant.accessToken,
      refresh_token: grant.refreshToken,
      token_type: 'Bearer',
      expires_in: 3600,
      scope: 'tickets:read',
    }
  }
  const routes: Record<string, (form: URLSearchParams) => readonly [number, unknown]> = {
    '/token': (form) => {
      if (form.get('grant_type') === 'authorization_code') {
        const code = codes.get(form.get('code') ?? '')
        codes.delete(form.get('code') ?? '')
        const verified =
          code?.codeChallenge === undefined
            ? !form.has('code_verifier')
            : challengeOf(form.get('code_verifier') ?? '') === code.codeChallenge
        if (code === undefined || code.redirectUri !== form.get('redirect_uri') || !verified)
          return [400, { error: 'invalid_grant', error_description: `no such code: ${form}` }]
        return [200, behaviour.answer(issue({ accessToken: '', refreshToken: '' }))]
      }
      const grant = byRefreshToken.get(form.get('refresh_token') ?? '')
      if (grant === undefined || grant.refreshToken !== form.get('refresh_token') || !good.has(grant.refreshToken)) {
        // A used one was stolen from somebody (RFC 9700, 4.14.2).
        if (grant !== undefined) for (const each of [grant.accessToken, grant.refreshToken]) good.delete(each)
        return [400, { error: 'invalid_grant', error_description: `refused: ${form}` }]
      }
      return [200, behaviour.answer(issue(grant))]
    },
    '/revoke': (form) => {
      good.delete(form.get('token') ?? '')
      return [200, null]
    },
  }
  http.answer = (request, response) => {
    const received = http.received.at(-1) as Received
    const { pathname } = new URL(received.url, http.url)
    if (behaviour.instead?.(received, response) === true) return
    if (pathname === '/.well-known/oauth-authorization-server' || pathname === '/.well-known/openid-configuration')
      return send(response, 200, behaviour.metadata)
    const route = routes[pathname]
    if (route === undefined || request.method !== 'POST') return send(response, 404, { error: 'not_found' })
    const form = new URLSearchParams(received.body)
    if (!isProven(request, form, client, behaviour.proof)) {
      response.setHeader('WWW-Authenticate', 'Basic realm="tokens"')
      return send(response, 401, { error: 'invalid_client' })
    }
    return send(response, ...route(form))
  }
  return {
    http,
    issuer: http.url,
    behaviour,
    good,
    code(given) {
      const code = `code-${token()}`
      codes.set(code, given)
      return code
    },
    forms: (path) => http.received.filter(({ url }) => url === path).map(({ body }) => new URLSearchParams(body)),
  }
}

export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url')
}

function isProven(
  { headers: { authorization = '' } }: IncomingMessage,
  form: URLSearchParams,
  { id, secret }: { id: string; secret: string },
  proof: StrictServer['behaviour']['proof'],
): boolean {
  if (proof === 'client_secret_basic') {
    const [user, password] = Buffer.from(authorization.replace(/^Basic /, ''), 'base64')
      .toString()
      .split(':')
    const decoded = (text = ''): string => decodeURIComponent(text.replaceAll('+', ' '))
    return decoded(user) === id && decoded(password) === secret && !form.has('client_secret')
  }
  if (authorization !== '' || form.get('client_id') !== id) return false
  return proof === 'none' ? !form.has('client_secret') : form.get('client_secret') === secret
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
  response.end(body === null ? '' : JSON.stringify(body))
}

function token(): string {
  return randomBytes(18).toString('base64url')
}
