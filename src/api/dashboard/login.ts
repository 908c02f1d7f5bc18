/** Signing in and out in a browser. Rule: docs/behaviour/access.md, "Sessions" and "People". */
import type { Context } from 'hono'
import { Hono } from 'hono'
import { html } from 'hono/html'
import { isSameSecret, safeNextPath } from '../../access/rules.ts'
import type { Integrations } from '../../create-integrations.ts'
import { boundBody, formField } from '../body.ts'
import type { AccessEnvironment, Cookie } from '../caller.ts'
import {
  addressOf,
  baseUrlOf,
  callerOf,
  clearCookie,
  clearSessionCookie,
  readCookie,
  writeCookie,
  writeSessionCookie,
} from '../caller.ts'
import { operatorRoot, requireCsrfToken, sameOrigin } from '../middleware.ts'
import { plainPage } from './frame/frame.ts'
import { clearNotice } from './frame/notice.ts'

/** Enough for a token and a path. The caller is not known yet, so no more is read. */
const MAX_LOGIN_BYTES = 16_384
const UNKNOWN = 'This token is not known here.'
const SIGN_IN: Cookie = { name: 'sign_in', sameSite: 'Lax' }
const OIDC_PROBLEMS = {
  refused: 'The sign-in was not begun in this browser, took too long, or was refused. Please begin again.',
  failed: 'The OpenID provider could not be asked, or its answer is not valid; the log says what. Please try again.',
  'not named':
    'You are signed in there, but operator.oidc lets no one of this name in here: ask an operator to add you.',
  'no base URL': 'No base URL is configured, to which the OpenID provider could lead back: set the option baseUrl.',
}

export function loginRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const { access } = integrations.admin
  const root = operatorRoot(integrations)
  const routes = new Hono<AccessEnvironment>()

  async function enter(context: Context, token: string, next: string): Promise<Response> {
    const session = await access.signIn(token, addressOf(context))
    if (session === null) return loginPage(integrations, context, next, UNKNOWN)
    writeSessionCookie(integrations, context, session)
    return context.redirect(next, 303)
  }

  routes.get('/login', async (context) => {
    const { next, token } = context.req.query()
    const to = safeNextPath(next, root)
    // Only the token of `dev` may stand in an address. Addresses are kept in histories and logs.
    if (token === undefined || access.devToken === null) return loginPage(integrations, context, to)
    context.header('Referrer-Policy', 'no-referrer')
    const isDev = isSameSecret(token, access.devToken)
    return isDev ? enter(context, token, to) : loginPage(integrations, context, to, UNKNOWN)
  })

  routes.post('/login', sameOrigin(integrations), boundBody(MAX_LOGIN_BYTES), async (context) => {
    const next = safeNextPath(await formField(context, 'next'), root)
    return enter(context, (await formField(context, 'token')) ?? '', next)
  })

  const { oidc } = access
  if (oidc !== null) {
    const redirectUri = (context: Context): string | null => {
      const baseUrl = baseUrlOf(integrations, context)
      return baseUrl === null ? null : `${new URL(baseUrl).origin}${root}/login/oidc/callback`
    }
    const refused = (context: Context, next: string, problem: keyof typeof OIDC_PROBLEMS) =>
      loginPage(integrations, context, next, OIDC_PROBLEMS[problem])

    routes.get('/login/oidc', async (context) => {
      const next = safeNextPath(context.req.query('next'), root)
      const back = redirectUri(context)
      if (back === null) return refused(context, next, 'no base URL')
      const begun = await oidc.begin(back, next)
      if (begun === null) return refused(context, next, 'failed')
      writeCookie(integrations, context, SIGN_IN, { value: begun.cookie, expiresAt: begun.expiresAt })
      context.header('Referrer-Policy', 'no-referrer')
      return context.redirect(begun.url, 302)
    })

    routes.get('/login/oidc/callback', async (context) => {
      const back = redirectUri(context)
      if (back === null) return refused(context, root, 'no base URL')
      const cookie = readCookie(integrations, context, SIGN_IN)
      const ended = await oidc.end(back, new URL(context.req.url), cookie)
      if (ended.kind !== 'known') return refused(context, root, ended.kind)
      clearCookie(integrations, context, SIGN_IN)
      const session = await access.signInPerson(ended.claims, addressOf(context))
      if (session === null) return refused(context, ended.next, 'not named')
      writeSessionCookie(integrations, context, session)
      // No redirect: the other site has led here, so that the browser would not send the new cookie along with it.
      context.header('Refresh', `0; url=${ended.next}`)
      return plainPage(integrations, context, {
        title: 'Signed in',
        main: html`<p><a href="${ended.next}">Go on</a></p>`,
      })
    })
  }

  routes.post(
    '/logout',
    sameOrigin(integrations),
    async (context, next) => {
      const caller = await callerOf(integrations, context)
      // An expired session only needs its cookie removed.
      if (caller === null) return signedOut(context)
      context.set('caller', caller)
      return next()
    },
    boundBody(MAX_LOGIN_BYTES),
    requireCsrfToken(),
    async (context) => {
      const { session } = context.var.caller
      if (session !== null) await access.signOut(session.id)
      return signedOut(context)
    },
  )

  function signedOut(context: Context): Response {
    clearSessionCookie(integrations, context)
    clearNotice(integrations, context)
    return context.redirect(`${root}/login`, 303)
  }

  return routes
}

function loginPage(
  integrations: Integrations,
  context: Context,
  next: string,
  problem?: string,
): Response | Promise<Response> {
  const { config, admin } = integrations
  const root = operatorRoot(integrations)
  const isRefused = problem !== undefined
  const { oidc, tokens } = config.operator
  const hasTokens = tokens.length > 0 || admin.access.dev
  const query = new URLSearchParams({ next })
  return plainPage(integrations, context, {
    title: 'Sign in',
    status: isRefused ? 401 : 200,
    main: html`${isRefused ? html`<p class="problem" id="problem" role="alert">${problem}</p>` : ''}
${oidc === null ? '' : html`<p><a href="${root}/login/oidc?${query.toString()}">Sign in with ${new URL(oidc.issuer).host}</a></p>`}
${
  hasTokens
    ? html`<form class="act" method="post" action="${root}/login">
<label for="token">Operator token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus${isRefused ? html` aria-invalid="true" aria-describedby="problem"` : ''}>
<input type="hidden" name="next" value="${next}">
<button type="submit">Sign in</button>
</form>`
    : ''
}`,
  })
}
