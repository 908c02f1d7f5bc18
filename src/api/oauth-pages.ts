/**
 * The pages that lead a person through an authorization: one style, no script, nothing loaded from another site. Their words are
 * for a person who is not an engineer. Rule: docs/behaviour/oauth.md, "Pages".
 */
import { createHash } from 'node:crypto'
import { html, raw } from 'hono/html'
import type { OAuthFailureCode } from '../framework/errors.ts'

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
 * Headers of each of these pages. The address may hold a signature or a code: no other site may see it, and no cache may keep
 * it.
 */
export function oauthPageHeaders({
  formAction = "'none'",
  referrerPolicy = 'no-referrer',
}: PageNeeds = {}): Record<string, string> {
  return {
    // The one style by its hash, and forms to one place. No other site may frame the page (CSP Level 3).
    'Content-Security-Policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action ${formAction}; base-uri 'none'; frame-ancestors 'none'`,
    'Content-Type': 'text/html; charset=UTF-8',
    'Referrer-Policy': referrerPolicy,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
  }
}

/** The connection that a page is about. */
interface Subject {
  /** The integration's. */
  readonly name: string
  /** The provider's label. */
  readonly provider: string
}

function named({ name, provider }: Subject): Markup {
  return name === provider ? html`` : html` for “${name}”`
}

/** Explains what will happen, with a link to the provider. */
export function connectPage({ authorizeUrl, ...subject }: Subject & { readonly authorizeUrl: string }): string {
  const { provider } = subject
  return document(
    `Connect ${provider}`,
    html`<p>You have been asked to give access to an account at <strong>${provider}</strong>${named(subject)}. What happens next:</p>
<ol>
<li>${provider} asks you to sign in, and shows what the access is for.</li>
<li>You choose to allow it. The person who sent you here never sees your password.</li>
<li>You come back here and read that it is done.</li>
</ol>
<p><a class="go" href="${authorizeUrl}">Continue to ${provider}</a></p>
<p class="quiet">You need an account at ${provider} that may give this access. If you did not expect this page, close it: nothing happens then.</p>`,
  )
}

/** Explains what will be taken back, with a button that does it. */
export function revokePage({ revokeUrl, ...subject }: Subject & { readonly revokeUrl: string }): string {
  const { provider } = subject
  return document(
    `Disconnect ${provider}`,
    html`<p>This takes back the access to the account at <strong>${provider}</strong>${named(subject)}. What is stored of the access is deleted, and nothing is fetched from there any more.</p>
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
<summary>For the people who run this service</summary>
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
<p class="quiet">You can take the access back at any time: in your account at the other service, or by asking the person who sent you here.</p>`,
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

interface FailureWords {
  readonly title: string
  readonly happened: string
  /** Stands before the button "Try again". */
  readonly todo: string
  /** Where there is no such button. Default: `todo`. */
  readonly todoWithoutRetry?: string
}

/** Codes of refusals before or beside the authorization itself. */
type OtherCode =
  | 'base_url_missing'
  | 'credentials_unreadable'
  | 'cross_origin'
  | 'insufficient_scope'
  | 'integration_not_found'
  | 'invalid_link'
  | 'lock_timeout'
  | 'unauthenticated'
  | 'unknown_provider'

const ASK_FOR_A_NEW_LINK = 'Ask the person who sent you here for a new link.'
const TELL_WHO_SENT_YOU =
  'Tell the person who sent you here, with the code below. Trying again does not help until it is mended there.'

const WORDS: Readonly<Record<OAuthFailureCode | OtherCode, FailureWords>> = {
  authorization_denied: {
    title: 'Access was not given',
    happened:
      'The other service says that access was refused on its page. Nothing was stored, and nothing has changed.',
    todo: 'If you did not mean to refuse, try again and allow the access this time. If you could not allow it, your account there may not be permitted to: ask its administrator.',
    todoWithoutRetry: `If you did not mean to refuse: ${lower(ASK_FOR_A_NEW_LINK)}`,
  },
  authorization_failed: {
    title: 'The other service reported a problem',
    happened: 'It sent you back without giving access. Nothing was stored, and nothing has changed.',
    todo: 'Wait a minute and try again. If it fails again, tell the person who sent you here, with the code below.',
    todoWithoutRetry: `Wait a minute. ${ASK_FOR_A_NEW_LINK}`,
  },
  invalid_state: {
    title: 'This attempt cannot be finished',
    happened:
      'It took too long, was finished before, or was begun in another browser. For your safety it was stopped here. If you were told before that it is connected, it still is.',
    todo: 'Begin again, and stay in this browser until you are told that it is done. Its cookies must be switched on.',
    todoWithoutRetry:
      'Open the link again that you were sent, and stay in one browser until you are told that it is done. Its cookies must be switched on. If the link no longer works, ask the person who sent it for a new one.',
  },
  invalid_issuer: {
    title: 'The answer came from an unexpected place',
    happened: 'Another service answered than the one that was asked. For your safety nothing was stored.',
    todo: 'Tell the person who sent you here, with the code below. Try again only from a link that you trust.',
    todoWithoutRetry: 'Tell the person who sent you here, with the code below.',
  },
  invalid_callback: {
    title: 'The answer could not be read',
    happened: 'The other service sent you back with an answer that makes no sense here. Nothing was stored.',
    todo: 'Try again. If it fails again, tell the person who sent you here, with the code below.',
    todoWithoutRetry: ASK_FOR_A_NEW_LINK,
  },
  missing_code: {
    title: 'The answer was incomplete',
    happened: 'The other service sent you back without the proof that access was given. Nothing was stored.',
    todo: 'Try again. If it fails again, tell the person who sent you here, with the code below.',
    todoWithoutRetry: ASK_FOR_A_NEW_LINK,
  },
  code_exchange_failed: {
    title: 'The last step did not work',
    happened: 'You came back with permission, but the other service did not accept the last step. Nothing was stored.',
    todo: 'Try again. If it fails again, tell the person who sent you here, with the code below: the settings for the other service may be wrong.',
    todoWithoutRetry:
      'Tell the person who sent you here, with the code below: the settings for the other service may be wrong. They can send you a new link.',
  },
  authorization_url_failed: {
    title: 'The other service cannot be opened',
    happened:
      'The page where you would give access could not be found: the settings for the other service are incomplete, or it cannot be reached.',
    todo: 'Wait a minute and try again. If it fails again, tell the person who sent you here, with the code below.',
    todoWithoutRetry:
      'Wait a minute and open the link again. If it fails again, tell the person who sent it, with the code below.',
  },
  oauth_unsupported: {
    title: 'There is nothing to connect here',
    happened: 'This service does not need anybody to sign in for it.',
    todo: TELL_WHO_SENT_YOU,
    todoWithoutRetry: 'Tell the person who sent you here that the link is not needed.',
  },
  revoke_failed: {
    title: 'The access was not taken back',
    happened: 'The other service refused, or could not be reached. The access is still there.',
    todo: 'Wait a minute and try again. You can also take the access back in your account at the other service.',
    todoWithoutRetry:
      'Wait a minute and try again from where you came. You can also take the access back in your account at the other service.',
  },
  revoke_superseded: {
    title: 'The access was given again meanwhile',
    happened: 'While the access was being taken back, somebody gave it again. The new access is still there.',
    todo: 'If it is to be taken back, too, try again.',
    todoWithoutRetry: 'If it is to be taken back, too, try again from where you came.',
  },
  base_url_missing: {
    title: 'This service is not set up for this yet',
    happened: 'It does not know its own address, to which the other service would send you back.',
    todo: TELL_WHO_SENT_YOU,
  },
  unknown_provider: {
    title: 'This connection is switched off',
    happened: 'The other service is not set up here at the moment. Nothing was stored.',
    todo: TELL_WHO_SENT_YOU,
  },
  credentials_unreadable: {
    title: 'This connection is out of order',
    happened: 'What is stored about it cannot be read at the moment. Nothing was changed.',
    todo: TELL_WHO_SENT_YOU,
  },
  integration_not_found: {
    title: 'This connection is no longer there',
    happened: 'It has been deleted since the link was made.',
    todo: ASK_FOR_A_NEW_LINK,
  },
  invalid_link: {
    title: 'This link does not work any more',
    happened:
      'Its time is over, or a part of it was lost on the way, as happens when a long link is broken over two lines.',
    todo: ASK_FOR_A_NEW_LINK,
    todoWithoutRetry: `Open it once more, whole. If that does not help: ${lower(ASK_FOR_A_NEW_LINK)}`,
  },
  unauthenticated: {
    title: 'You are not signed in',
    happened: 'This page opens for somebody who is signed in, or who has a link to it.',
    todo: ASK_FOR_A_NEW_LINK,
  },
  insufficient_scope: {
    title: 'You may look, but not change this',
    happened: 'You are signed in with a token that does not allow it.',
    todo: 'Sign in with another token, or ask the person who gave it to you.',
  },
  cross_origin: {
    title: 'This came from another site',
    happened: 'A page of another site tried to do this in your name. For your safety nothing was done.',
    todo: 'Begin from the link that you were sent.',
  },
  lock_timeout: {
    title: 'Somebody else is at it right now',
    happened: 'The same connection is being worked on at this moment. Nothing was changed.',
    todo: 'Wait a minute and try again.',
    todoWithoutRetry: 'Wait a minute and open the link again.',
  },
}

const UNKNOWN: FailureWords = {
  title: 'Something went wrong',
  happened: 'Something failed here, and it is not your fault.',
  todo: 'Wait a minute and try again. If it fails again, tell the person who sent you here, with the code below.',
  todoWithoutRetry:
    'Wait a minute and open the link again. If it fails again, tell the person who sent it, with the code below.',
}

function failureWords(code: string): FailureWords {
  return Object.hasOwn(WORDS, code) ? WORDS[code as keyof typeof WORDS] : UNKNOWN
}

function lower(sentence: string): string {
  return sentence.charAt(0).toLowerCase() + sentence.slice(1)
}
