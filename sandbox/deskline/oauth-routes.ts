import { timingSafeEqual } from 'node:crypto'
import type { Context } from 'hono'
import { Hono } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import { html } from 'hono/html'
import { z } from 'zod'
import type { AuthorizationServer, TokenAnswer } from './authorization-server.ts'
import { SCOPES, TokenFailure } from './authorization-server.ts'

const QUESTION_COOKIE = 'deskline_question'

const AuthorizeQuery = z.object({
  response_type: z.literal('code'),
  state: z.string().min(1),
  code_challenge: z.string().min(43),
  code_challenge_method: z.literal('S256'),
  scope: z.string().default('tickets:read'),
})

const CodeGrant = z.object({
  grant_type: z.literal('authorization_code'),
  code: z.string(),
  redirect_uri: z.string(),
  code_verifier: z.string(),
})
const RefreshGrant = z.object({ grant_type: z.literal('refresh_token'), refresh_token: z.string() })
const Grant = z.discriminatedUnion('grant_type', [CodeGrant, RefreshGrant])

/** OAuth 2.0: RFC 6749, 7009, 7636, 8414, 9207. */
export function oauthRoutes(server: AuthorizationServer): Hono {
  const app = new Hono()

  app.get('/.well-known/oauth-authorization-server', (c) => {
    const { origin: issuer } = new URL(c.req.url)
    return c.json({
      issuer,
      authorization_endpoint: `${issuer}/oauth/authorize`,
      token_endpoint: `${issuer}/oauth/token`,
      revocation_endpoint: `${issuer}/oauth/revoke`,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      scopes_supported: SCOPES,
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
      authorization_response_iss_parameter_supported: true,
    })
  })

  app.get('/oauth/authorize', (c) => {
    const redirectUri = c.req.query('redirect_uri') ?? ''
    const isKnown = c.req.query('client_id') === server.client.id && server.client.redirectUris.includes(redirectUri)
    // Nobody is led to an address that is not registered, not even with an error: RFC 6749, 4.1.2.1.
    if (!isKnown) return c.text('Deskline does not know this application, or not this redirect URI.', 400)
    const query = AuthorizeQuery.safeParse(c.req.query())
    const state = c.req.query('state') ?? ''
    if (!query.success) return c.redirect(leadBack(c, redirectUri, { error: 'invalid_request', state }), 303)
    const scopes = query.data.scope.split(' ')
    if (!scopes.every((scope) => SCOPES.includes(scope))) {
      return c.redirect(leadBack(c, redirectUri, { error: 'invalid_scope', state }), 303)
    }
    const question = server.ask({ redirectUri, state, scopes, codeChallenge: query.data.code_challenge })
    setCookie(c, QUESTION_COOKIE, question, { httpOnly: true, sameSite: 'Lax', path: '/oauth/authorize' })
    return c.html(html`<!doctype html>
<title>Deskline</title>
<form method="post" action="/oauth/authorize">
<p>May ${server.client.id} use your Deskline as you, Ada? ${scopes.join(', ')}</p>
<input type="hidden" name="question" value="${question}">
<button name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button>
</form>`)
  })

  app.post('/oauth/authorize', async (c) => {
    const form = await c.req.parseBody()
    const question = String(form.question)
    const request = question === getCookie(c, QUESTION_COOKIE) ? server.answer(question) : null
    if (request === null) return c.text('This question is over. Begin again.', 400)
    const { redirectUri, state } = request
    const outcome = form.decision === 'allow' ? { code: server.codeFor(request) } : { error: 'access_denied' }
    return c.redirect(leadBack(c, redirectUri, { ...outcome, state }), 303)
  })

  app.post('/oauth/token', (c) =>
    byTheClient(c, server, async (form) => {
      const parsed = Grant.safeParse(form)
      if (!parsed.success) {
        const isKnown = form.grant_type === 'authorization_code' || form.grant_type === 'refresh_token'
        throw new TokenFailure(isKnown ? 'invalid_request' : 'unsupported_grant_type')
      }
      const grant = parsed.data
      return c.json<TokenAnswer>(
        grant.grant_type === 'refresh_token'
          ? server.refresh(grant.refresh_token)
          : server.exchange({ code: grant.code, redirectUri: grant.redirect_uri, codeVerifier: grant.code_verifier }),
      )
    }),
  )

  app.post('/oauth/revoke', (c) =>
    byTheClient(c, server, async (form) => {
      // One that nobody knows is none any more: RFC 7009, 2.2.
      server.revoke(String(form.token))
      return c.body(null, 200)
    }),
  )
  return app
}

function leadBack(c: Context, redirectUri: string, parameters: Record<string, string>): string {
  const url = new URL(redirectUri)
  for (const [name, value] of Object.entries({ ...parameters, iss: new URL(c.req.url).origin })) {
    url.searchParams.set(name, value)
  }
  return url.href
}

async function byTheClient(
  c: Context,
  server: AuthorizationServer,
  answer: (form: Record<string, unknown>) => Promise<Response>,
): Promise<Response> {
  c.header('cache-control', 'no-store')
  try {
    if (!isTheClient(c.req.header('authorization') ?? '', server)) throw new TokenFailure('invalid_client')
    return await answer(await c.req.parseBody())
  } catch (error) {
    if (!(error instanceof TokenFailure)) throw error
    return c.json({ error: error.error }, error.error === 'invalid_client' ? 401 : 400)
  }
}

/** Id and secret are form-encoded before they are joined: RFC 6749, 2.3.1. */
function isTheClient(header: string, { client }: AuthorizationServer): boolean {
  const [id = '', secret = ''] = Buffer.from(header.replace(/^Basic /i, ''), 'base64')
    .toString()
    .split(':')
  const given = Buffer.from(JSON.stringify([formDecoded(id), formDecoded(secret)]))
  const wanted = Buffer.from(JSON.stringify([client.id, client.secret]))
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}

const formDecoded = (text: string): string => new URLSearchParams(`text=${text}`).get('text') ?? ''
