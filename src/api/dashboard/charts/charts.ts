/**
 * Charts as SVG, made on the server: pure functions from figures to markup. No script, no style attribute, nothing loaded: the pages'
 * content security policy allows none of it. Rule: docs/behaviour/charts.md, "Drawing".
 */
import { html } from 'hono/html'

type Markup = ReturnType<typeof html>

export interface ChartLine {
  readonly name: string
  /** One for each moment; null: not known. What is no finite number of at least 0 counts as not known. */
  readonly values: readonly (number | null)[]
  /** Drawn in the colour of trouble. */
  readonly isBad?: boolean
}

export interface DrawnMark {
  readonly at: Date
  readonly kind: string
  readonly text: string
}

export interface ChartInput {
  /** Unique on its page: other elements refer to it. */
  readonly id: string
  readonly title: string
  /** `area` and `bars` stand upon each other. */
  readonly kind: 'line' | 'area' | 'bars'
  readonly unit: keyof typeof UNITS
  /** Begin of each point, ascending. */
  readonly at: readonly Date[]
  /** End of the last point. */
  readonly to: Date
  readonly lines: readonly ChartLine[]
  readonly marks?: readonly DrawnMark[]
  /** What is said where no value is above 0. */
  readonly empty?: string
  /** Not counted yet. */
  readonly missing?: { readonly from: Date; readonly to: Date } | null
}

/** More are merged: no screen shows them apart. */
const MOST_POINTS = 120
const MOST_MARKS = 30
const MOST_LINES = 6
/** Beyond it a figure is no figure of ours, and sums would leave the numbers that JavaScript has. */
const GREATEST = 1e15

/** Of the drawing. Small, so that its letters can be read on a phone. */
const WIDTH = 440
const HEIGHT = 200
const PLOT = { left: 48, right: 432, top: 22, bottom: 176 } as const
const LETTER_PIXELS = 11
/** Marks that are nearer than this share their numbers: `3–11`. */
const MARK_WIDTH = 34

/** A chart with its legend, and its figures as a table. {@link markList} has its marks in words. */
export function chart(input: ChartInput): Markup {
  const drawn = prepared(input)
  const { id, title, empty = 'Nothing happened in this time.' } = input
  const missing = input.missing == null ? '' : html`<p>${missingWords(input.missing)}</p>`
  if (!drawn.lines.some(({ values }) => values.some((value) => value !== null && value > 0)))
    return html`<figure class="chart" id="${id}"><figcaption>${title}</figcaption>
<p>${empty}</p>${missing}</figure>`
  return html`<figure class="chart" id="${id}"><figcaption>${title}</figcaption>
${drawing(input, drawn)}
${legend(drawn)}${missing}
<details><summary>${title} as a table</summary>${table(input, drawn)}</details></figure>`
}

/** A line of a list: 24 hours at a glance. */
export function sparkline({
  calls,
  failures,
}: {
  readonly calls: readonly number[]
  readonly failures: readonly number[]
}): Markup {
  const all = calls.slice(-MOST_POINTS).map((value) => known(value) ?? 0)
  const bad = failures.slice(-MOST_POINTS).map((value) => known(value) ?? 0)
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
  if (sum(all) === 0) return html`<span class="quiet">no calls</span>`
  const most = Math.max(...all)
  const bars = (values: readonly number[]): string =>
    values
      .map((value, at) => {
        const height = Math.min(24, (value / most) * 24)
        return value === 0 ? '' : `M${at * 4} 24V${round(24 - Math.max(1, height))}h3V24z`
      })
      .join('')
  const label = `${format('count', sum(all))} calls, ${format('count', sum(bad))} failed`
  return html`<svg class="spark" viewBox="0 0 ${all.length * 4} 24" preserveAspectRatio="none" role="img" aria-label="${label}"><title>${label}</title><path class="fill s1" d="${bars(all)}"/><path class="fill sbad" d="${bars(bad)}"/></svg>`
}

/** An input that can be drawn. */
interface Drawn {
  readonly atMs: readonly number[]
  readonly fromMs: number
  readonly toMs: number
  readonly lines: readonly {
    readonly name: string
    readonly style: string
    readonly values: readonly (number | null)[]
  }[]
  readonly marks: readonly (DrawnMark & { readonly number: number })[]
}

function prepared({ at, to, lines, marks = [], kind }: ChartInput): Drawn {
  const size = Math.max(1, Math.ceil(at.length / MOST_POINTS))
  // Of merged points the greatest is shown, of those that stand upon each other the sum: no peak and no call is lost.
  const merge = kind === 'line' ? Math.max : (a: number, b: number) => Math.min(GREATEST, a + b)
  const atMs = at.filter((_, place) => place % size === 0).map((moment) => moment.getTime())
  const fromMs = atMs[0] ?? to.getTime()
  const toMs = Math.max(to.getTime(), fromMs + 1)
  return {
    atMs,
    fromMs,
    toMs,
    lines: lines.slice(0, MOST_LINES).map(({ name, values, isBad = false }, line) => ({
      name,
      style: isBad ? 'sbad' : `s${line + 1}`,
      values: atMs.map((_, place) =>
        values
          .slice(place * size, (place + 1) * size)
          .map(known)
          .reduce((a, b) => (a === null ? b : b === null ? a : merge(a, b)), null),
      ),
    })),
    marks: marksWithin(marks, fromMs, toMs),
  }
}

function known(value: number | null | undefined): number | null {
  return value != null && Number.isFinite(value) && value >= 0 ? Math.min(value, GREATEST) : null
}

function drawing({ id, title, kind, unit, missing }: ChartInput, drawn: Drawn): Markup {
  const { fromMs, toMs, lines, marks } = drawn
  const ends = kind === 'line' ? lines.map(({ values }) => values) : stacked(lines.map(({ values }) => values))
  const { step, top } = scaleOf(Math.max(...ends.flat().map((value) => value ?? 0)), unit)
  const x = (atMs: number): number =>
    round(PLOT.left + ((Math.min(Math.max(atMs, fromMs), toMs) - fromMs) / (toMs - fromMs)) * (PLOT.right - PLOT.left))
  const y = (value: number): number => round(PLOT.bottom - (value / top) * (PLOT.bottom - PLOT.top))
  const levels = Array.from({ length: Math.round(top / step) + 1 }, (_, at) => at * step)
  const gap = missing && { from: x(missing.from.getTime()), to: x(missing.to.getTime()) }
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" font-size="${LETTER_PIXELS}" role="img" aria-labelledby="${id}-title ${id}-desc">
<title id="${id}-title">${title}</title><desc id="${id}-desc">${description(unit, drawn)}</desc>
${gap ? html`<rect class="gap" x="${gap.from}" y="${PLOT.top}" width="${Math.max(0, round(gap.to - gap.from))}" height="${PLOT.bottom - PLOT.top}"/>` : ''}
${levels.map((level) => html`<line class="grid" x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(level)}" y2="${y(level)}"/><text x="${PLOT.left - 4}" y="${round(y(level) + 4)}" text-anchor="end">${format(unit, level)}</text>`)}
${timeTicks(fromMs, toMs).map(({ atMs, label }) => html`<line class="grid" x1="${x(atMs)}" x2="${x(atMs)}" y1="${PLOT.bottom}" y2="${PLOT.bottom + 4}"/><text x="${x(atMs)}" y="${PLOT.bottom + 16}" text-anchor="middle">${label}</text>`)}
${lines.map(({ style }, at) => shape(kind, style, { drawn, ends, at, x, y })).reverse()}
${placed(marks, x).map(({ mark, at, numbers }) => html`<g class="mark"><title>${mark.kind}: ${mark.text}</title><line x1="${at}" x2="${at}" y1="6" y2="${PLOT.bottom}" stroke-dasharray="2 3"/>${numbers === null ? '' : markNumbers(numbers, at)}</g>`)}
</svg>`
}

/** Left of its line where there is no room on its right. */
function markNumbers(numbers: string, at: number): Markup {
  const isLast = at > PLOT.right - MARK_WIDTH
  return html`<text x="${isLast ? at - 3 : at + 2}" y="12"${isLast ? html` text-anchor="end"` : ''}>${numbers}</text>`
}

interface ShapeInput {
  readonly drawn: Drawn
  readonly ends: readonly (readonly (number | null)[])[]
  readonly at: number
  readonly x: (atMs: number) => number
  readonly y: (value: number) => number
}

/** One path a line, however many points it has. */
function shape(kind: ChartInput['kind'], style: string, { drawn: { atMs, toMs }, ends, at, x, y }: ShapeInput): Markup {
  const values = ends[at] ?? []
  const below = (place: number): number => (at === 0 || kind === 'line' ? 0 : (ends[at - 1]?.[place] ?? 0))
  const ending = (place: number): number => x(atMs[place + 1] ?? toMs)
  if (kind === 'bars') {
    const bars = values.map((value, place) => {
      if (value === null || value <= below(place)) return ''
      const [from, to] = [x(atMs[place] ?? toMs), ending(place)]
      const width = round(Math.max(0.5, to - from - (to - from > 3 ? 1 : 0)))
      return `M${from} ${y(below(place))}V${y(value)}h${width}V${y(below(place))}z`
    })
    return html`<path class="fill ${style}" d="${bars.join('')}"/>`
  }
  const middle = (place: number): number => round((x(atMs[place] ?? toMs) + ending(place)) / 2)
  const line = (run: readonly number[]): string =>
    run.map((place, index) => `${index === 0 ? 'M' : 'L'}${middle(place)} ${y(values[place] ?? 0)}`).join('')
  const runs = runsOf(values)
  // One point alone has no length: it is drawn as a dash.
  const strokes = runs.map((run) => (run.length === 1 ? `${line(run)}m-2 0h4` : line(run))).join('')
  if (kind === 'line')
    return html`<path class="stroke ${style}" stroke-width="1.75" stroke-linejoin="round" d="${strokes}"/>`
  const areas = runs.map((run) => {
    const back = [...run].reverse().map((place) => `L${middle(place)} ${y(below(place))}`)
    return run.length === 1 ? '' : `${line(run)}${back.join('')}z`
  })
  return html`<path class="fill soft ${style}" d="${areas.join('')}"/><path class="stroke ${style}" stroke-width="1" d="${strokes}"/>`
}

/** Places that follow each other and have a value. */
function runsOf(values: readonly (number | null)[]): number[][] {
  const runs: number[][] = []
  for (const [place, value] of values.entries()) {
    if (value === null) continue
    const last = runs.at(-1)
    if (last?.at(-1) === place - 1) last.push(place)
    else runs.push([place])
  }
  return runs
}

/** The upper end of each, on top of those before it. */
function stacked(lines: readonly (readonly (number | null)[])[]): number[][] {
  const ends: number[][] = []
  for (const values of lines)
    ends.push(values.map((value, place) => Math.min(GREATEST, (ends.at(-1)?.[place] ?? 0) + (value ?? 0))))
  return ends
}

/** Steps of 1, 2 or 5 by a power of ten, four or five of them. A share ends at 100 %. */
function scaleOf(most: number, unit: ChartInput['unit']): { step: number; top: number } {
  const least = unit === 'count' ? 1 : unit === 'share' ? 0.01 : 0.1
  const rough = Math.max(most, least) / 4
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough
  const whole = unit === 'count' ? Math.max(1, step) : step
  const top = Math.max(1, Math.ceil(most / whole - 1e-9)) * whole
  return { step: whole, top }
}

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
const TICK_STEPS_MS = [1, 5, 15, 30]
  .map((n) => n * MINUTE_MS)
  .concat(
    [1, 3, 6, 12].map((n) => n * HOUR_MS),
    [1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY_MS),
  )
const MOST_TICKS = 6

function timeTicks(fromMs: number, toMs: number): { atMs: number; label: string }[] {
  const step = TICK_STEPS_MS.find((size) => (toMs - fromMs) / size <= MOST_TICKS)
  if (step === undefined) return []
  const ticks: { atMs: number; label: string }[] = []
  for (let atMs = Math.ceil(fromMs / step) * step; atMs <= toMs; atMs += step) {
    const text = new Date(atMs).toISOString()
    ticks.push({ atMs, label: step < DAY_MS ? text.slice(11, 16) : dayOf(text) })
  }
  return ticks
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

function dayOf(text: string): string {
  return `${Number(text.slice(8, 10))} ${MONTHS[Number(text.slice(5, 7)) - 1]}`
}

/** With the numbers beside the line of the first, for those that are near each other. */
function placed(marks: Drawn['marks'], x: (atMs: number) => number) {
  const groups: { at: number; marks: { mark: Drawn['marks'][number]; at: number }[] }[] = []
  for (const mark of marks) {
    const at = x(mark.at.getTime())
    const last = groups.at(-1)
    if (last === undefined || at - last.at >= MARK_WIDTH) groups.push({ at, marks: [{ mark, at }] })
    else last.marks.push({ mark, at })
  }
  return groups.flatMap(({ marks }) => {
    const [first, last] = [marks[0]?.mark.number, marks.at(-1)?.mark.number]
    const numbers = first === last ? String(first) : `${first}–${last}`
    return marks.map((one, place) => ({ ...one, numbers: place === 0 ? numbers : null }))
  })
}

const UNITS = {
  count: (value: number) => short(value),
  /** Milliseconds. */
  ms: (value: number) =>
    value < 1_000
      ? `${digits(value)} ms`
      : value < MINUTE_MS
        ? `${digits(value / 1_000)} s`
        : value < HOUR_MS
          ? `${digits(value / MINUTE_MS)} min`
          : value < DAY_MS
            ? `${digits(value / HOUR_MS)} h`
            : `${digits(value / DAY_MS)} d`,
  /** From 0 to 1. */
  share: (value: number) => `${digits(value * 100)} %`,
  aMinute: (value: number) => short(value),
} as const

export function format(unit: ChartInput['unit'], value: number): string {
  return UNITS[unit](value)
}

/** The table has the figure itself. */
function exact(unit: ChartInput['unit'], value: number | null): string {
  if (value === null) return ''
  return unit === 'count' ? Math.round(value).toLocaleString('en-US') : format(unit, value)
}

function short(value: number): string {
  for (const [size, letter] of [
    [1e12, 'T'],
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const)
    if (value >= size) return `${digits(value / size)}${letter}`
  return digits(value)
}

/** Three that mean something, without zeros at the end. */
const digits = (value: number): string =>
  value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))

const round = (value: number): number => Math.round(value * 10) / 10

function legend({ lines }: Drawn): Markup {
  return html`<ul class="legend">${lines.map(({ name, style }) => html`<li class="${style}">${name}</li>`)}</ul>`
}

function marksWithin(marks: readonly DrawnMark[], fromMs: number, toMs: number): Drawn['marks'] {
  return marks
    .filter(({ at }) => at.getTime() >= fromMs && at.getTime() <= toMs)
    .slice(-MOST_MARKS)
    .map((mark, place) => ({ ...mark, number: place + 1 }))
}

/** Once for all charts of the same time: they number their marks alike. */
export function markList({ at, to, marks = [] }: Pick<ChartInput, 'at' | 'to' | 'marks'>): Markup | '' {
  const within = marksWithin(marks, (at[0] ?? to).getTime(), to.getTime())
  if (within.length === 0) return ''
  return html`<ol class="marks">${within.map(({ at, kind, text }) => html`<li>${moment(at)} ${kind}: ${text}</li>`)}</ol>`
}

function missingWords({ from, to }: { readonly from: Date; readonly to: Date }): Markup {
  return html`From ${moment(from)} to ${moment(to)} nothing is counted yet: a worker counts it within minutes.`
}

function moment(at: Date): Markup {
  const text = at.toISOString()
  return html`<time datetime="${text}">${text.slice(0, 16).replace('T', ' ')}</time>`
}

function description(unit: ChartInput['unit'], { atMs, fromMs, toMs, lines }: Drawn): string {
  const text = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')
  const parts = lines.map(({ name, values }) => {
    const most = values.reduce<number | null>((a, b) => (a === null ? b : b === null ? a : Math.max(a, b)), null)
    return most === null ? `${name}: none` : `${name}: at most ${format(unit, most)}`
  })
  return `${atMs.length} points from ${text(fromMs)} to ${text(toMs)} UTC. ${parts.join('; ')}.`
}

/** Points at which nothing happened are left out: they would hide the others. */
function table({ title, unit }: ChartInput, { atMs, lines }: Drawn): Markup {
  const rows = atMs.flatMap((at, place) => {
    const values = lines.map((line) => line.values[place] ?? null)
    return values.some((value) => value !== null && value > 0) ? [{ at, values }] : []
  })
  return html`<div class="wide"><table><caption>${title}. Times are UTC; those without any are left out.</caption>
<thead><tr><th scope="col">From</th>${lines.map(({ name }) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows.map(({ at, values }) => html`<tr><th scope="row">${moment(new Date(at))}</th>${values.map((value) => html`<td>${exact(unit, value)}</td>`)}</tr>`)}</tbody></table></div>`
}
