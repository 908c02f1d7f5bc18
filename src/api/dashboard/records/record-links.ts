/** Where a record of ours is seen. */
import { html } from 'hono/html'
import type { Section } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'

/** A record, as `explain` names it. */
export interface RecordRef {
  readonly kind: string
  readonly id: number | string
  readonly integration_id: number | null
}

/** By the kinds of `explain`. */
const SECTION_OF: Readonly<Record<string, Section>> = {
  integration: 'integrations',
  webhook: 'webhooks',
  item: 'sync-items',
  run: 'sync-runs',
  request: 'requests',
  log: 'logs',
  incident: 'incidents',
  event: 'events',
  mapping: 'mappings',
}

/** A text that names no row leads to its life. */
export function recordPath(root: string, { kind, id, integration_id: of }: RecordRef): string {
  const section = SECTION_OF[kind]
  if (section !== undefined) return `${root}/${section}/${id}`
  const reference = of === null ? `${kind}:${id}` : `integration:${of}/${kind}:${id}`
  return `${root}/search?${new URLSearchParams({ q: reference }).toString()}`
}

export function recordLink(root: string, ref: RecordRef): Markup {
  return html`<a href="${recordPath(root, ref)}">${ref.kind} ${ref.id}</a>`
}

/** A link to a row of a list; null without an id. */
export function rowLink(root: string, section: Section, id: unknown, text: unknown = id): Markup | null {
  return id === null || id === undefined ? null : html`<a href="${root}/${section}/${id}">${text}</a>`
}

/** A column such as `item:12`. */
export function originLink(root: string, origin: unknown): Markup | null {
  const [, kind = '', id = ''] = /^([a-z]+):(\d+)$/.exec(String(origin ?? '')) ?? []
  return SECTION_OF[kind] === undefined ? null : recordLink(root, { kind, id, integration_id: null })
}
