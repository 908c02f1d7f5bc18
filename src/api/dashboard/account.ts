/** Who is signed in, and the way out. Rule: docs/behaviour/operator-api.md, "Pages". */
import { html } from 'hono/html'
import type { Caller } from '../caller.ts'
import { CSRF_FIELD } from '../csrf.ts'

type Markup = ReturnType<typeof html>

export function whoIsHere(root: string, { principal, session }: Caller): Markup {
  if (session === null) return html`<p>${principal.name}</p>`
  return html`<nav aria-label="Account"><span>${principal.name}</span>
<form method="post" action="${root}/logout">${csrfField(session.csrfToken)}<button type="submit">Sign out</button></form></nav>`
}

export function csrfField(token: string): Markup {
  return html`<input type="hidden" name="${CSRF_FIELD}" value="${token}">`
}
