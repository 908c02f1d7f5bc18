/**
 * The pages that lead a person through an authorization: one style, no script, nothing loaded from another site. Their words are
 * for a person who is not an engineer. Rule: docs/behaviour/oauth.md, "Pages".
 */
import { createHash } from 'node:crypto'
import { html, raw } from 'hono/html'
import { failureWords } from './oauth-failure-words.ts'

type Markup = ReturnType<typeof html>

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d0d7de, #3d444d); --quiet: light-dark(#59636e, #9198a1); --go: light-dark(#0b57d0, #a8c7fa); --on-go: light-dark(#ffffff, #062e6f) }
body { font: 1.0625rem/1.6 system-ui, sans-serif; max-width: 34rem; margin: 0 auto; padding: 3rem 1.25rem; overflow-wrap: anywhere }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem }
li { margin-bottom: .35rem }
.go { display: inline-block; margin: .75rem 0; padding: .7rem 1.4rem; border: 0; border-radius: .4rem; cursor: pointer; font: inherit; background: var(--go); color: var(--on-go); font-weight: 600; text-decoration: none }
.go:hover { text-decoration: underline }
.go:focus-visible, summary:focus-visible { outline: 3px solid var(--go); outline-offset: 3px }
.quiet, details { color: var(--quiet); font-size: .95rem }
details { margin-top: 2rem; border-top: 1px solid var(--line); padding-top: 1rem }
summary { cursor: pointer }
`

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')

export interface PageNeeds {
  /** Where a form of the page may lead; default: nowhere. */
  readonly formAction?: string
  readonly referrerPolicy?: 'no-referrer' | 'same-origin'
}

/**
 * Headers of each of these pages. Allowed is the one style, by its hash, and no frame (CSP Level 3). The address may hold a
 * signature or a code: no other site may see it, and no cache may keep it.
 */
export function oauthPageHeaders({
  formAction = "'none'",
  referrerPolicy = 'no-referrer',
}: PageNeeds = {}): Record<string, string> {
  return {
    'Content-Security-Policy': [
      "default-src 'none'",
      `style-src 'sha256-${STYLE_HASH}'`,
      `form-action ${formAction}`,
      "base-uri 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
    'Content-Type': 'text/html; charset=UTF-8',
    'Referrer-Policy': referrerPolicy,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
  }
}

export interface ConnectPage {
  /** The integration's. */
  readonly name: string
  /** The provider's label. */
  readonly provider: string
  readonly authorizeUrl: string
}

/** Explains what will happen, with a link to the provider. */
export function connectPage({ name, provider, authorizeUrl }: ConnectPage): string {
  const subject = name === provider ? html`` : html` for “${name}”`
  return document(
    `Connect ${provider}`,
    html`<p>You have been asked to give access to an account at <strong>${provider}</strong>${subject}. What happens next:</p>
<ol>
<li>${provider} asks you to sign in, and shows what the access is for.</li>
<li>You choose to allow it. Whoever sent you here never sees your password.</li>
<li>You come back here and read that it is done.</li>
</ol>
<p><a class="go" href="${authorizeUrl}">Continue to ${provider}</a></p>
<p class="quiet">You need an account at ${provider} that may give this access. If you did not expect this page, close it: nothing happens then.</p>`,
  )
}

export interface RevokePage {
  /** The integration's. */
  readonly name: string
  /** The provider's label. */
  readonly provider: string
  readonly revokeUrl: string
}

/** Explains what will be taken back, with a button that does it. */
export function revokePage({ name, provider, revokeUrl }: RevokePage): string {
  const subject = name === provider ? html`` : html` for “${name}”`
  return document(
    `Disconnect ${provider}`,
    html`<p>This takes back the access to the account at <strong>${provider}</strong>${subject}. What is stored of the access is deleted, and nothing is fetched from there any more.</p>
<form method="post" action="${revokeUrl}"><button class="go" type="submit">Disconnect ${provider}</button></form>
<p class="quiet">If you did not expect this page, close it: nothing happens then. The account can be connected again later.</p>`,
  )
}

export interface FailurePage {
  readonly code: string
  /** As in the JSON answer. */
  readonly message: string
  readonly providerError: string | null
  /** Where to try again; null where that is not known. */
  readonly retryUrl: string | null
}

/** Explains what went wrong and what to do. */
export function failurePage({ code, message, providerError, retryUrl }: FailurePage): string {
  const { title, happened, todo, todoWithoutRetry = todo } = failureWords(code)
  const retry = retryUrl === null ? html`` : html`<p><a class="go" href="${retryUrl}">Try again</a></p>`
  const said = providerError === null ? html`` : html` The other service said: <code>${providerError}</code>.`
  return document(
    title,
    html`<p>${happened}</p>
<p><strong>What to do:</strong> ${retryUrl === null ? todoWithoutRetry : todo}</p>
${retry}
<details>
<summary>For whoever looks after this service</summary>
<p>${message}</p>
<p>Code: <code>${code}</code>.${said}</p>
</details>`,
  )
}

/** The end of an authorization; `disconnected`: the end of a revocation. */
export function connectedPage(done: 'connected' | 'disconnected' = 'connected'): string {
  if (done === 'disconnected')
    return document(
      'Disconnected',
      html`<p>The access has been taken back, and what was stored of it is deleted.</p>
<p><strong>What to do:</strong> nothing more. You can close this window.</p>`,
    )
  return document(
    'Connected',
    html`<p>The access you gave is stored, encrypted. It is renewed without you for as long as the other service allows that.</p>
<p><strong>What to do:</strong> nothing more. You can close this window.</p>
<p class="quiet">You can take the access back at any time: in your account at the other service, or by asking whoever sent you here.</p>`,
  )
}

function document(title: string, main: Markup): string {
  const markup = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Integrations</title>
<style>${raw(STYLE)}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${main}
</main>
</body>
</html>`
  // Hono's template is a promise only if one of its parts is.
  if (markup instanceof Promise) throw new TypeError('A part of a page is a promise.')
  return markup.toString()
}
