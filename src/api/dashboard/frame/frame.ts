/** The frame of the dashboard's pages: the way around, the search box, who is here. Rule: docs/behaviour/dashboard.md. */
import { randomBytes } from 'node:crypto'
import type { Context } from 'hono'
import { html } from 'hono/html'
import { hasScope } from '../../../access/rules.ts'
import type { Integrations } from '../../../create-integrations.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { CSRF_FIELD, operatorRoot } from '../../middleware.ts'
import { ICON, SCRIPTS, STYLE } from './assets.ts'
import type { Markup } from './markup.ts'
import { takeNotice } from './notice.ts'

/** Where a page stands: path below the root, and its name, which is its title, too. */
export const SECTIONS = {
  Now: { '': 'Home', charts: 'Charts' },
  Work: {
    integrations: 'Integrations',
    webhooks: 'Webhooks',
    'sync-runs': 'Sync runs',
    'sync-items': 'Sync items',
    requests: 'Requests',
  },
  Trouble: { incidents: 'Incidents', failures: 'Failures', doctor: 'Doctor' },
  Records: {
    events: 'Events',
    logs: 'Logs',
    mappings: 'Mappings',
    'idempotency-keys': 'Idempotency keys',
    notifications: 'Notifications',
  },
  System: {
    console: 'Test console',
    schedules: 'Schedules',
    configuration: 'Configuration',
    keys: 'Encryption keys',
    tokens: 'Tokens',
    audit: 'Audit',
    'api/v1/docs': 'API',
  },
} as const
type Groups = (typeof SECTIONS)[keyof typeof SECTIONS]
export type Section = Groups extends infer Group ? (Group extends unknown ? keyof Group & string : never) : never

/** As the way around calls it. */
export function sectionName(section: Section): string {
  const pages: Readonly<Record<string, string>> = Object.assign({}, ...Object.values(SECTIONS))
  return pages[section] ?? section
}

/** A page that needs nothing but its address. */
export interface ServedPage {
  /** Its path below the root. */
  readonly section: Section
  serve(integrations: Integrations, context: Context<AccessEnvironment>): Promise<Response>
}

export interface PageParts {
  readonly title: string
  /** Null: a page of none, such as the search. */
  readonly section: Section | null
  readonly main: Markup
  /** The script keeps the page up to date while it is looked at. */
  readonly isLive?: boolean
  readonly status?: number
}

/** Everything that a page's code needs about its reader. */
export interface Reader {
  /** Path of the dashboard, as the browser sees it. */
  readonly root: string
  readonly mayOperate: boolean
  /** The hidden field that each form of a change carries. */
  readonly csrf: Markup
}

export function readerOf(integrations: Integrations, context: Context<AccessEnvironment>): Reader {
  const { principal, session } = context.var.caller
  return {
    root: operatorRoot(integrations),
    mayOperate: hasScope(principal.scopes, 'operate'),
    csrf: session === null ? html`` : html`<input type="hidden" name="${CSRF_FIELD}" value="${session.csrfToken}">`,
  }
}

/** Frames may not hold it, forms lead to us alone, and only scripts with this answer's nonce run (CSP Level 3). */
function documentOf(
  integrations: Integrations,
  context: Context,
  { title, status = 200 }: Pick<PageParts, 'title' | 'status'>,
  body: Markup,
): Response | Promise<Response> {
  const root = operatorRoot(integrations)
  const nonce = randomBytes(18).toString('base64')
  context.header(
    'Content-Security-Policy',
    `default-src 'none'; style-src 'self'; img-src 'self'; script-src 'nonce-${nonce}' 'strict-dynamic'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; trusted-types dashboard`,
  )
  // `same-origin`, not `no-referrer`: a browser then sends `Origin: null` with our own forms, and we refuse those.
  context.header('Referrer-Policy', 'same-origin')
  context.header('X-Frame-Options', 'DENY')
  context.header('Cross-Origin-Opener-Policy', 'same-origin')
  return context.html(
    html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Integrations</title>
<link rel="icon" type="image/svg+xml" href="${root}/assets/${ICON.name}">
<link rel="stylesheet" href="${root}/assets/${STYLE.name}">
${SCRIPTS.map(({ name }) => html`<script nonce="${nonce}" src="${root}/assets/${name}" defer></script>`)}
</head>
${body}
</html>`,
    status as 200,
  )
}

/** A page for who has not signed in, or may see no other. */
export function plainPage(
  integrations: Integrations,
  context: Context,
  { main, ...parts }: Omit<PageParts, 'section' | 'isLive'>,
): Response | Promise<Response> {
  return documentOf(
    integrations,
    context,
    parts,
    html`<body class="plain" data-root="${operatorRoot(integrations)}">
<main id="main">
<h1>${parts.title}</h1>
${main}
</main>
</body>`,
  )
}

export function dashboardPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  { title, section, main, isLive = false, status = 200 }: PageParts,
): Response | Promise<Response> {
  const { root, csrf } = readerOf(integrations, context)
  const { principal, session } = context.var.caller
  const notice = takeNotice(integrations, context)
  return documentOf(
    integrations,
    context,
    { title, status },
    html`<body data-root="${root}">
<a class="skip" href="#main">To the content</a>
<div class="frame">
<nav class="side" aria-label="Pages"><details class="menu" open><summary>Pages</summary>${Object.entries(SECTIONS).map(
      ([group, pages]) =>
        html`<h2>${group}</h2><ul>${Object.entries(pages).map(
          ([path, name]) =>
            html`<li><a href="${path === '' ? root : `${root}/${path}`}"${path === section ? html` aria-current="page"` : ''}>${name}</a></li>`,
        )}</ul>`,
    )}</details></nav>
<div>
<header class="top">
<form class="search" role="search" action="${root}/search"><input type="search" name="q" aria-label="Any id, or a piece of text" placeholder="Any id, or a piece of text" maxlength="600"><button type="submit">Find</button></form>
<span data-switches></span>
<span>${principal.name}</span>
${session === null ? '' : html`<form method="post" action="${root}/logout">${csrf}<button type="submit">Sign out</button></form>`}
</header>
<main id="main" tabindex="-1"${isLive ? html` data-live` : ''}>
${notice === null ? '' : html`<p class="panel notice" role="status">${notice}</p>`}
<h1>${title}</h1>
${main}
</main>
</div>
</div>
</body>`,
  )
}
