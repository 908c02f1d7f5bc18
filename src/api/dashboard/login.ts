/** Signing in and out in a browser. Rule: docs/behaviour/access.md, "Sessions". */
import type { Context } from 'hono'
import { Hono } from 'hono'
import { html } from 'hono/html'
import { isSameSecret, safeNextPath } from '../../access/rules.ts'
import type { Integrations } from '../../create-integrations.ts'
import { boundBody, formField } from '../body.ts'
import type { AccessEnvironment } from '../caller.ts'
import { addressOf, callerOf, clearSessionCookie, writeSessionCookie } from '../caller.ts'
import { operatorRoot, requireCsrfToken, sameOrigin } from '../middleware.ts'
import { page } from './layout.ts'

/** Enough for a token and a path. The caller is not known yet, so no more is read. */
const MAX_LOGIN_BYTES = 16_384
const UNKNOWN = 'This token is not known here.'

export function loginRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const { access } = integrations.admin
  const root = operatorRoot(integrations)
  const routes = new Hono<AccessEnvironment>()

  async function enter(context: Context, token: string, next: string): Promise<Response> {
    const session = await access.signIn(token, addressOf(context))
    if (session === null) return loginPage(context, root, next, UNKNOWN)
    writeSessionCookie(integrations, context, session)
    return context.redirect(next, 303)
  }

  routes.get('/login', async (context) => {
    const { next, token } = context.req.query()
    const to = safeNextPath(next, root)
    // Only the token of `dev` may stand in an address. Addresses are kept in histories and logs.
    if (token === undefined || access.devToken === null) return loginPage(context, root, to)
    context.header('Referrer-Policy', 'no-referrer')
    return isSameSecret(token, access.devToken) ? enter(context, token, to) : loginPage(context, root, to, UNKNOWN)
  })

  routes.post('/login', sameOrigin(integrations), boundBody(MAX_LOGIN_BYTES), async (context) => {
    const next = safeNextPath(await formField(context, 'next'), root)
    return enter(context, (await formField(context, 'token')) ?? '', next)
  })

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
    return context.redirect(`${root}/login`, 303)
  }

  return routes
}

function loginPage(context: Context, root: string, next: string, problem?: string): Response | Promise<Response> {
  const isRefused = problem !== undefined
  return page(context, {
    title: 'Sign in',
    status: isRefused ? 401 : 200,
    main: html`<form class="login" method="post" action="${root}/login">
<label for="token">Operator token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus${isRefused ? html` aria-invalid="true" aria-describedby="problem"` : ''}>
${isRefused ? html`<p class="problem" id="problem" role="alert">${problem}</p>` : ''}
<input type="hidden" name="next" value="${next}">
<button type="submit">Sign in</button>
</form>`,
  })
}
