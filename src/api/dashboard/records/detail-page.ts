/** The page of one record: facts, what may be done, where it stands in its life, and that life. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Integrations } from '../../../create-integrations.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { idIn } from '../../named-routes.ts'
import { ProblemError } from '../../problem.ts'
import type { Act } from '../acts/acts.ts'
import { buttons } from '../acts/acts.ts'
import type { StateNow } from '../charts/state-diagram.ts'
import { stateDiagram } from '../charts/state-diagram.ts'
import type { Reader, Section } from '../frame/frame.ts'
import { dashboardPage, readerOf, sectionName } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { facts, NOTHING } from '../frame/markup.ts'
import { explained, lifeOf } from './life.ts'

export interface Detail {
  readonly title: string
  readonly facts: Readonly<Record<string, unknown>>
  readonly acts?: readonly Act[]
  /** To other systems; a link that is null is left out. */
  readonly links?: Readonly<Record<string, string | null>>
  readonly parts?: readonly Markup[]
  readonly states?: readonly StateNow[]
  /** As `explain` takes it. */
  readonly reference: string
  /** It may change while it is looked at. */
  readonly isLive?: boolean
}

/** What a record's page is made with. */
export interface Asking {
  readonly integrations: Integrations
  readonly context: Context<AccessEnvironment>
  readonly reader: Reader
  readonly id: number
}

export type DetailOf = (asking: Asking) => Promise<Detail>

/** Digits that are no id are no page. @throws ProblemError 404 */
export async function detailPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  section: Section,
  detailOf: DetailOf,
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const id = idIn(context.req.param('id'))
  if (id === 0) throw new ProblemError({ code: 'no_such_route', detail: 'There is no such page.' })
  const detail = await detailOf({ integrations, context, reader, id })
  const told = await explained(integrations, context, detail.reference)
  const links = Object.entries(detail.links ?? {}).filter(([, href]) => href !== null)
  return dashboardPage(integrations, context, {
    title: detail.title,
    section,
    isLive: detail.isLive ?? false,
    main: html`<p><a href="${reader.root}/${section}">${sectionName(section)}</a>${links.map(([text, href]) => html` · <a href="${href}" rel="noreferrer noopener" target="_blank">${text}</a>`)}</p>
${buttons(reader, detail.acts ?? [])}
${facts(detail.facts)}
${detail.parts ?? NOTHING}
${(detail.states ?? []).map(stateDiagram)}
${told.outcome === 'found' ? lifeOf(reader.root, told) : NOTHING}`,
  })
}

/** A part of a page under a heading that its address can name. */
export function part(heading: string, content: unknown): Markup {
  const id = heading.toLowerCase().replaceAll(/[^a-z]+/g, '-')
  return html`<section aria-labelledby="${id}"><h2 id="${id}">${heading}</h2>
${content}</section>`
}
