/** A record's life as `explain` tells it: where it comes from, what happened to it, what it caused. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { explain } from '../../../commands/trouble/explain.ts'
import type { Integrations } from '../../../create-integrations.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { ask } from '../acts/operation-door.ts'
import type { Markup } from '../frame/markup.ts'
import { NOTHING, time } from '../frame/markup.ts'
import type { RecordRef } from './record-links.ts'
import { recordLink } from './record-links.ts'

type Told = Awaited<ReturnType<typeof explain.run>>

/** @throws what `explain` throws: RecordNotFound, InvalidArgumentException */
export const explained = (integrations: Integrations, context: Context<AccessEnvironment>, reference: string) =>
  ask<Told>(integrations, context, 'get /explain', { reference })

export function lifeOf(root: string, told: Extract<Told, { readonly outcome: 'found' }>): Markup {
  const { origins, lines, caused, related, more } = told
  return html`<section aria-labelledby="life"><h2 id="life">Its life</h2>
${origins.length === 0 ? '' : html`<p>Origin: ${origins.map(({ text, link }, at) => html`${at === 0 ? '' : '; before that: '}${link === null ? text : html`${text} (${recordLink(root, link)})`}`)}.</p>`}
<ol class="life">${lines.map(
    ({ at, text, by, link }) =>
      html`<li><span class="when">${time(at)}</span> <span>${text}${by === null ? '' : html` <span class="quiet">by ${by}</span>`}${link === null ? '' : html` (${recordLink(root, link)})`}</span></li>\n`,
  )}</ol>
${more ? html`<p class="quiet">More is known than is shown here: the lists have it.</p>` : ''}
${refs(root, 'It caused', caused)}${refs(root, 'Related records', related)}</section>`
}

function refs(root: string, head: string, all: readonly RecordRef[]): Markup {
  if (all.length === 0) return NOTHING
  return html`<h3>${head}</h3><ul class="refs">${all.map((ref) => html`<li>${recordLink(root, ref)}</li>`)}</ul>`
}
