/** A state chart as SVG made on the server, with the same in words: arrows have numbers, and a list says when each is taken. */
import { html } from 'hono/html'
import type { Markup } from '../frame/markup.ts'
import { badge, time } from '../frame/markup.ts'
import type { ChartName, StateChart } from './state-charts.ts'
import { OUTSIDE, STATE_CHARTS } from './state-charts.ts'

export interface StateNow {
  readonly chart: ChartName
  /** Null: it is in none of them. */
  readonly current: string | null
  /** How it ended, where the state does not say so. */
  readonly outcome?: string | undefined
  /** When states were reached, as far as it is known. */
  readonly reached?: readonly (readonly [state: string, at: Date | null])[]
}

const BOX = { width: 110, height: 34 }
const STEP = { x: 180, y: 110 }
const MARGIN = { x: 30, y: 62 }
/** From the straight line between two states to the bend of their first arrow, and from there to the next one's. */
const BEND = 26

interface Point {
  readonly x: number
  readonly y: number
}

export function stateDiagram({ chart: name, current, outcome, reached = [] }: StateNow): Markup {
  const chart: StateChart = STATE_CHARTS[name]
  const places = Object.entries(chart.states)
  const columns = Math.max(...places.map(([, [column]]) => column))
  const rows = Math.max(...places.map(([, [, row]]) => row))
  const width = 2 * MARGIN.x + columns * STEP.x + BOX.width
  const height = 2 * MARGIN.y + rows * STEP.y + BOX.height
  const inner = chart.arrows.flatMap((arrow, at) => (arrow.includes(OUTSIDE) ? [] : [{ arrow, number: at + 1 }]))
  const known = reached.filter(([, at]) => at !== null)
  const ended = outcome === undefined || outcome === current ? '' : `, ${outcome}`
  const said = current === null ? chart.title : `${chart.title}: ${current} now${ended}`
  return html`<figure class="states"><figcaption>${current === null ? chart.title : html`${chart.title}: ${badge(current)} now${ended}`}${known.length === 0 ? '' : html`<ul class="refs">${known.map(([state, at]) => html`<li>${state} ${time(at)}</li>`)}</ul>`}</figcaption>
<div class="wide" tabindex="0" role="group" aria-label="${chart.title}, as a chart"><svg role="img" aria-label="${said}. The list below says the same in words." viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<defs><marker id="arrow-${name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
${inner.map(({ arrow, number }, at) => arrowOf(name, chart, arrow, number, inner.slice(0, at).filter(({ arrow: other }) => other[0] === arrow[0] && other[1] === arrow[1]).length))}
${places.map(([state, place]) => {
  const { x, y } = centre(place)
  return html`<g class="state${state === current ? ' now' : ''}"><rect x="${x - BOX.width / 2}" y="${y - BOX.height / 2}" width="${BOX.width}" height="${BOX.height}" rx="6"/><text x="${x}" y="${y + 5}">${state}</text></g>`
})}
</svg></div>
<details><summary>In words</summary><ol>${chart.arrows.map(
    ([from, to, when]) =>
      html`<li>${from === OUTSIDE ? 'at first' : from} → ${to === OUTSIDE ? 'its end' : to}${when === '' ? '' : `: ${when}`}</li>`,
  )}</ol></details></figure>`
}

const centre = ([column, row]: readonly [number, number]): Point => ({
  x: MARGIN.x + BOX.width / 2 + column * STEP.x,
  y: MARGIN.y + BOX.height / 2 + row * STEP.y,
})

/** @param nth how many arrows before it have the same ends */
function arrowOf(
  name: string,
  { states }: StateChart,
  [from, to]: StateChart['arrows'][number],
  number: number,
  nth: number,
): Markup {
  const a = centre(states[from] ?? [0, 0])
  const b = centre(states[to] ?? [0, 0])
  if (from === to) {
    const top = a.y - BOX.height / 2
    return arc(name, number, { x: a.x - 18, y: top }, { x: a.x, y: top - 54 }, { x: a.x + 18, y: top })
  }
  const length = Math.hypot(b.x - a.x, b.y - a.y)
  // To the left of its own direction: the arrow back lies on the other side. One that passes a state goes around it.
  const passes = Math.max(0, Math.round(Math.abs(b.x - a.x) / STEP.x) - 1)
  const bend = BEND * (1 + nth) + passes * 58
  const middle = {
    x: (a.x + b.x) / 2 + ((b.y - a.y) / length) * bend,
    y: (a.y + b.y) / 2 - ((b.x - a.x) / length) * bend,
  }
  return arc(name, number, border(a, middle), middle, border(b, middle))
}

function arc(name: string, number: number, from: Point, bend: Point, to: Point): Markup {
  const [x, y] = [(from.x + 2 * bend.x + to.x) / 4, (from.y + 2 * bend.y + to.y) / 4].map(Math.round)
  const at = ({ x, y }: Point) => `${Math.round(x)} ${Math.round(y)}`
  return html`<path class="arrow" d="M${at(from)} Q${at(bend)} ${at(to)}" marker-end="url(#arrow-${name})"/><circle class="number" cx="${x}" cy="${y}" r="9"/><text class="number" x="${x}" y="${(y ?? 0) + 4}">${number}</text>`
}

/** Where the line from a state's middle to a point leaves its box. */
function border(middle: Point, to: Point): Point {
  const dx = to.x - middle.x
  const dy = to.y - middle.y
  const part = Math.min(
    dx === 0 ? Number.POSITIVE_INFINITY : BOX.width / 2 / Math.abs(dx),
    dy === 0 ? Number.POSITIVE_INFINITY : BOX.height / 2 / Math.abs(dy),
  )
  return { x: middle.x + dx * part, y: middle.y + dy * part }
}
