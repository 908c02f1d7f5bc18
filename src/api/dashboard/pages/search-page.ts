/** One box for any id or piece of text, and a search of what payloads hold. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import { snakeCase } from '../../../commands/command.ts'
import type { searchPayloads } from '../../../commands/trouble/search-payloads.ts'
import type { Integrations } from '../../../create-integrations.ts'
import { isIntegrationsError } from '../../../framework/errors.ts'
import { queryGiven } from '../../body.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { ask, operationOf } from '../acts/operation-door.ts'
import { dashboardPage, readerOf } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { badge, facts, tableOf, time } from '../frame/markup.ts'
import { problemOf, problemPanel } from '../frame/problem-page.ts'
import { inputOf } from '../lists/form-fields.ts'
import { givenFilter } from '../lists/listing-page.ts'
import { explained, lifeOf } from '../records/life.ts'
import { recordPath, rowLink } from '../records/record-links.ts'

/** Kinds with a page of their own; a text such as an external id has its life alone. */
const ROWS = new Set(['integration', 'webhook', 'item', 'run', 'request', 'log', 'incident', 'event', 'mapping'])
const PAYLOADS = 'get /payloads'

export async function searchPage(integrations: Integrations, context: Context<AccessEnvironment>): Promise<Response> {
  const { root } = readerOf(integrations, context)
  const { q: text = '' } = queryGiven(context)
  const page = (title: string, main: unknown, status = 200) =>
    dashboardPage(integrations, context, { title, section: null, status, main: html`${main}${payloadForm(root)}` })
  if (text.trim() === '') return page('Search', MAY_BE_SEARCHED)
  try {
    const told = await explainedAsMeant(integrations, context, text)
    if (told.outcome === 'ambiguous')
      return page(
        'Several records have it',
        html`<ul class="refs">${told.matches.map(({ reference }) => html`<li><a href="${root}/search?${new URLSearchParams({ q: reference }).toString()}">${reference}</a></li>`)}</ul>${told.more ? html`<p>There are more: an integration before it, such as <code>integration:7/${text}</code>, makes them fewer.</p>` : ''}`,
      )
    if (ROWS.has(told.ref.kind) && told.exists) return context.redirect(recordPath(root, told.ref), 303)
    return page(
      told.reference,
      html`${facts({
        Status: told.status === null ? undefined : badge(told.status),
        Integration:
          told.integration === null
            ? undefined
            : rowLink(root, 'integrations', told.integration.id, told.integration.name),
        Row: told.exists ? undefined : 'deleted; what people did with it is known',
      })}${lifeOf(root, told)}`,
    )
  } catch (error) {
    const problem = await problemOf(integrations, context, error)
    const said = problem.code === 'record_not_found' ? nothingHasIt(root, text.trim()) : problemPanel(problem)
    return page('Nothing found', html`${said}${MAY_BE_SEARCHED}`, problem.status)
  }
}

/** An id may end in a blank, but a pasted text more often does. */
async function explainedAsMeant(integrations: Integrations, context: Context<AccessEnvironment>, text: string) {
  try {
    return await explained(integrations, context, text)
  } catch (error) {
    if (text === text.trim() || !isIntegrationsError(error, 'record_not_found')) throw error
    return await explained(integrations, context, text.trim())
  }
}

/** A person may have meant a piece of a payload, which is another search. */
function nothingHasIt(root: string, text: string): Markup {
  const inPayloads = new URLSearchParams({ contains: JSON.stringify(text) }).toString()
  return html`<p class="panel">Nothing has this id: <code>${text}</code>. <a href="${root}/search/payloads?${inPayloads}">Search payloads for the text</a></p>`
}

const MAY_BE_SEARCHED = html`<p>What may be looked for:</p>
<ul>
<li>a record by its kind and id: <code>webhook:4711</code>, <code>item:12</code>, <code>run:3</code>, <code>request:9</code>, <code>incident:5</code>, <code>event:8</code>, <code>log:2</code>, <code>mapping:6</code>, <code>integration:7</code></li>
<li>a row of yours: <code>issue:17</code></li>
<li>the id of a delivery, an external id, a provider's id of a request, an idempotency key; <code>integration:7/</code> before it looks in that integration only</li>
<li>the id of a workflow, as the Temporal UI shows it</li>
</ul>`

function payloadForm(root: string, given: Readonly<Record<string, string>> = {}): Markup {
  const fields = Object.entries(operationOf(PAYLOADS).fields)
  return html`<h2>In payloads</h2>
<p>Webhooks or sync items of the last hours whose payload holds a JSON value, at any depth: <code>{"number": 17}</code>, <code>"octo@example.com"</code>.</p>
<form class="filters" action="${root}/search/payloads">${fields.map(([name, field]) => inputOf(name, field, given[snakeCase(name)]))}<button type="submit">Search</button></form>`
}

type Found = Awaited<ReturnType<typeof searchPayloads.run>>

export async function payloadSearchPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
): Promise<Response> {
  const { root } = readerOf(integrations, context)
  const given = givenFilter(context)
  const page = (title: string, main: Markup, status = 200) =>
    dashboardPage(integrations, context, {
      title,
      section: null,
      status,
      main: html`${main}${payloadForm(root, given)}`,
    })
  try {
    const { data, searched, too_large: tooLarge, since, cut } = await ask<Found>(integrations, context, PAYLOADS, given)
    const section = given.kind === 'item' ? 'sync-items' : 'webhooks'
    return page(
      'Found in payloads',
      html`<p>${searched} payloads since ${time(since)} were looked through.${tooLarge === 0 ? '' : ` ${tooLarge} were too large to be read.`}</p>
${cut === null ? '' : html`<p class="panel trouble">Not all of them: ${cut}.</p>`}
${tableOf<Found['data'][number]>({
  caption: 'Newest first. Times are UTC.',
  columns: [
    { head: 'ID', cell: ({ id }) => rowLink(root, section, id) },
    { head: 'Integration', cell: (row) => rowLink(root, 'integrations', row.integration_id) },
    { head: 'Event', cell: ({ type }) => type },
    { head: 'Status', cell: ({ status }) => badge(status) },
    { head: 'Stored', cell: (row) => time(row.created_at) },
  ],
  rows: data,
  none: 'None of them holds it.',
})}`,
    )
  } catch (error) {
    const problem = await problemOf(integrations, context, error)
    return page('The search was refused', problemPanel(problem), problem.status)
  }
}
