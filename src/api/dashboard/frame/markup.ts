/** Pieces of pages: moments, states, links, lists of facts, JSON. Text is escaped by hono's `html`; nothing here is raw. */
import { html } from 'hono/html'
import { classOfCall } from '../../../calls/failure-class-rules.ts'
import { prettyJson } from './pretty-json.ts'

export type Markup = ReturnType<typeof html>
export const NOTHING: Markup = html``

const UNITS = [
  ['day', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const

/** A moment in UTC, and how long ago or ahead it is. The script shows it in local time where the reader has asked for that. */
export function time(moment: Date | string | null | undefined): Markup {
  if (moment === null || moment === undefined) return html`<span class="quiet">never</span>`
  const at = new Date(moment)
  const text = at.toISOString()
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')}</time> <span class="quiet ago">${distance(at, new Date())}</span>`
}

/** `3 min ago`, `in 2 h`, `now`. */
export function distance(at: Date, now: Date): string {
  const seconds = Math.round((at.getTime() - now.getTime()) / 1_000)
  const length = Math.abs(seconds)
  const [unit, size] = UNITS.find(([, size]) => length >= size) ?? ['s', 1]
  if (length < 1) return 'now'
  const count = Math.floor(length / size)
  const text = `${count} ${unit === 'day' && count > 1 ? 'days' : unit}`
  return seconds < 0 ? `${text} ago` : `in ${text}`
}

const GOOD = new Set(['success', 'processed', 'healthy', 'closed', 'ok', 'delivered', 'on', 'good'])
const BAD = new Set(['failed', 'failing', 'unhealthy', 'open', 'error', 'forced_open', 'off', 'revoked'])
const WARN = new Set([
  'partial',
  'degraded',
  'half_open',
  'warning',
  'stale',
  'paused',
  'processing',
  'pending',
  'expired',
])

/** A state in its colour, which is never the only sign of it: the word stands there too. */
export function badge(state: string | null | undefined, text = state): Markup {
  const word = state ?? ''
  const tone = GOOD.has(word) ? 'good' : BAD.has(word) ? 'bad' : WARN.has(word) ? 'warn' : 'quiet'
  return html`<span class="badge ${tone}">${text}</span>`
}

/** Of a call. */
export function outcomeBadge(failureClass: string | null, error: unknown): Markup {
  const counted = classOfCall(failureClass, error)
  return badge(counted === null ? 'success' : 'failed', counted ?? 'success')
}

/** A list of names and values; what is undefined is left out. */
export function facts(entries: Readonly<Record<string, unknown>>): Markup {
  const shown = Object.entries(entries).filter(([, value]) => value !== undefined)
  return html`<dl class="facts">${shown.map(([name, value]) => html`<dt>${name}</dt><dd>${value === null ? html`<span class="quiet">none</span>` : value}</dd>`)}</dl>`
}

/** A text that a reader may want to copy: the script adds the button. */
export function pre(text: string, label: string): Markup {
  return html`<pre tabindex="0" role="group" aria-label="${label}" data-copy>${text}</pre>`
}

/** A value as JSON, collapsed when it is long. */
export function json(value: unknown, label: string): Markup {
  if (value === null) return html`<span class="quiet">none</span>`
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? 'undefined')
  const shown = pre(text, label)
  return text.length < 2_000
    ? shown
    : html`<details><summary>${label}: ${text.length} characters</summary>${shown}</details>`
}

/** A body as it is stored: JSON with a line for each value, its numbers and texts untouched. */
export function body(text: string | null | undefined, label: string): Markup {
  if (text === null || text === undefined || text === '') return html`<p class="quiet">${label}: none</p>`
  const shown = pre(prettyJson(text) ?? text, label)
  const size = `${label}: ${text.length} characters`
  return html`<details${text.length < 4_000 ? html` open` : ''}><summary>${size}</summary>${shown}</details>`
}

export interface Column<Row> {
  readonly head: string
  readonly isNumber?: true
  readonly cell: (row: Row) => unknown
}

/** The first column names its row. */
export function tableOf<Row>({
  caption,
  about,
  columns,
  rows,
  none,
}: {
  readonly caption: string
  /** Behind the caption, such as a command. */
  readonly about?: Markup
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly none: string
}): Markup {
  if (rows.length === 0) return html`<p class="quiet">${none}</p>`
  const cell = ({ cell, isNumber }: Column<Row>, row: Row, at: number): Markup =>
    at === 0
      ? html`<th scope="row">${cell(row) ?? ''}</th>`
      : html`<td${isNumber ? html` class="number"` : ''}>${cell(row) ?? ''}</td>`
  return html`<div class="wide" tabindex="0" role="group" aria-label="${caption}"><table>
<caption>${caption}${about ?? ''}</caption>
<thead><tr>${columns.map(({ head, isNumber }) => html`<th scope="col"${isNumber ? html` class="number"` : ''}>${head}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${columns.map((column, at) => cell(column, row, at))}</tr>\n`)}</tbody>
</table></div>`
}
