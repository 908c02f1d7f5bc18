/** A refusal or a failure, as a page: the same words as the API's problem document. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Integrations } from '../../../create-integrations.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { operatorRoot } from '../../middleware.ts'
import { problemHandler } from '../../problem.ts'
import { dashboardPage, plainPage, readerOf } from './frame.ts'
import type { Markup } from './markup.ts'

export interface ProblemDocument {
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail: string
  readonly fields?: readonly { readonly path: string; readonly message: string }[]
}

/** Writes the log line of a fault of ours, as the API does. */
export async function problemOf(
  integrations: Integrations,
  context: Context,
  error: unknown,
): Promise<ProblemDocument> {
  const answer = await problemHandler(integrations)(error as Error, context)
  return (await answer.json()) as ProblemDocument
}

export function problemPanel({ detail, fields = [], code }: ProblemDocument): Markup {
  return html`<div class="panel trouble" role="alert"><p>${detail}</p>${fields.length === 0 ? '' : html`<ul>${fields.map(({ path, message }) => html`<li>${path}: ${message}</li>`)}</ul>`}<p class="quiet">${code}</p></div>`
}

export async function problemPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  error: unknown,
): Promise<Response> {
  const problem = await problemOf(integrations, context, error)
  return dashboardPage(integrations, context, {
    title: problem.title,
    section: null,
    status: problem.status,
    main: problemPanel(problem),
  })
}

/** Whether a browser asks. Below the API's root every caller gets JSON. */
export function wantsPage({ req }: Context): boolean {
  return (req.header('accept') ?? '').includes('text/html') && !req.path.includes('/api/v1')
}

/** For a person who is signed in and may see no page. */
export async function refusedPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  refusal: Response,
): Promise<Response> {
  const problem = (await refusal.json()) as ProblemDocument
  const root = operatorRoot(integrations)
  return plainPage(integrations, context, {
    title: problem.title,
    status: problem.status,
    main: html`${problemPanel(problem)}
<p><a href="${root}/api/v1/docs">The API</a> may be used with it.</p>
<form method="post" action="${root}/logout">${readerOf(integrations, context).csrf}<button type="submit">Sign out</button></form>`,
  })
}
