/** The frame of every page, the dashboard's and those of OAuth: one style, no script, nothing loaded from another site. Rule: docs/behaviour/operator-api.md, "Pages". */
import { createHash } from 'node:crypto'
import type { Context } from 'hono'
import { html, raw } from 'hono/html'
import type { Caller } from '../caller.ts'
import { CSRF_FIELD } from '../middleware.ts'

type Markup = ReturnType<typeof html>

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d0d7de, #3d444d); --quiet: light-dark(#59636e, #9198a1); --bad: light-dark(#b3261e, #ff8a80) }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 64rem; margin: 0 auto; padding: 1rem }
header { display: flex; justify-content: space-between; align-items: center; gap: 1rem; border-bottom: 1px solid var(--line); margin-bottom: 1rem }
header p, nav { margin: 0; color: var(--quiet); display: flex; gap: 1rem; align-items: center }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
caption { text-align: left; color: var(--quiet); padding-bottom: .5rem }
th, td { text-align: left; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere }
form { margin: 0 }
.login { display: grid; gap: .5rem; max-width: 24rem }
input, button { font: inherit; padding: .4rem .75rem }
.problem { color: var(--bad) }
`

/** A style as a policy names it. */
export function styleHashOf(style: string): string {
  return createHash('sha256').update(style).digest('base64')
}

/** Allows the one style by its hash, and forms to one place. No other site may frame the page (CSP Level 3). */
export function securityPolicy(styleHash: string, formAction: string): string {
  return `default-src 'none'; style-src 'sha256-${styleHash}'; form-action ${formAction}; base-uri 'none'; frame-ancestors 'none'`
}

/** The frame around the parts of a page. */
export function documentOf(title: string, style: string, body: Markup): Markup {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Integrations</title>
<style>${raw(style)}</style>
</head>
<body>
${body}
</body>
</html>`
}

const SECURITY_POLICY = securityPolicy(styleHashOf(STYLE), "'self'")

/**
 * `same-origin`, not `no-referrer`: with `no-referrer` a browser sends `Origin: null` with our own forms (Fetch, "append a
 * request Origin header"), and we would refuse them as foreign.
 */
const REFERRER_POLICY = 'same-origin'

export function page(
  context: Context,
  { title, header = html``, main, status = 200 }: { title: string; header?: Markup; main: Markup; status?: 200 | 401 },
): Response | Promise<Response> {
  context.header('Content-Security-Policy', SECURITY_POLICY)
  context.header('Referrer-Policy', REFERRER_POLICY)
  context.header('X-Frame-Options', 'DENY')
  return context.html(
    documentOf(
      title,
      STYLE,
      html`<header><h1>${title}</h1>${header}</header>
<main>${main}</main>`,
    ),
    status,
  )
}

export function time(moment: Date): Markup {
  const text = moment.toISOString()
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')}</time>`
}

/** The name of the signed-in caller, and the button to sign out. */
export function whoIsHere(root: string, { principal, session }: Caller): Markup {
  if (session === null) return html`<p>${principal.name}</p>`
  return html`<nav aria-label="Account"><span>${principal.name}</span>
<form method="post" action="${root}/logout">${csrfField(session.csrfToken)}<button type="submit">Sign out</button></form></nav>`
}

export function csrfField(token: string): Markup {
  return html`<input type="hidden" name="${CSRF_FIELD}" value="${token}">`
}
