/**
 * Curves as SVG, made by hand: small panels side by side, x in powers of ten, y from zero.
 *
 * No background and colours that either theme can carry; what a panel shows is said in words, too (`<desc>`).
 */
import { rounded } from '../bench/frame.ts'

export interface Point {
  readonly x: number
  readonly y: number
  /** Of the rounds whose median `y` is. */
  readonly low: number
  readonly high: number
}

export interface Panel {
  /** With its unit. */
  readonly title: string
  readonly xLabel: string
  readonly series: readonly { readonly name: string; readonly points: readonly Point[] }[]
}

const PANEL = { width: 300, height: 200 }
const PLOT = { left: 44, right: 16, top: 34, bottom: 40 }
const COLUMNS = 3
/** A dashed second line stays apart without its colour. */
const LINES = [
  { className: 'first', dash: '' },
  { className: 'second', dash: ' stroke-dasharray="5 3"' },
]
const STYLE = `text{font:11px system-ui,sans-serif;fill:#57606a}.title{font-weight:600}.value{font-size:10px}
.axis{stroke:#8c959f;stroke-width:1}.first{stroke:#2f6fb5;fill:#2f6fb5}.second{stroke:#b5622f;fill:#b5622f}
polyline.first,polyline.second{fill:none;stroke-width:2}.range{stroke-width:1}
@media (prefers-color-scheme:dark){text{fill:#9ea7b3}.first{stroke:#6cb0f5;fill:#6cb0f5}.second{stroke:#f0a35e;fill:#f0a35e}}`

export function curves(title: string, panels: readonly Panel[]): string {
  const columns = Math.min(COLUMNS, panels.length)
  const width = columns * PANEL.width
  const height = Math.ceil(panels.length / columns) * PANEL.height
  const placed = panels.map((panel, at) => {
    const [x, y] = [(at % columns) * PANEL.width, Math.floor(at / columns) * PANEL.height]
    return `<g transform="translate(${x} ${y})">\n${drawn(panel)}\n</g>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${escaped(title)}</title>`,
    `<desc id="desc">${escaped(inWords(panels))}</desc>`,
    `<style>${STYLE}</style>`,
    ...placed,
    '</svg>\n',
  ].join('\n')
}

/** Of each line its first and its last point: the alternative text of the picture. */
export function inWords(panels: readonly Panel[]): string {
  return panels
    .map(({ title, xLabel, series }) => {
      const lines = series.map(({ name, points }) => {
        const [first, last] = [points[0], points.at(-1)]
        if (first === undefined || last === undefined) return `${name}: nothing`
        return `${name}${name === '' ? '' : ': '}${rounded(first.y)} at ${first.x.toLocaleString('en-US')}, ${rounded(last.y)} at ${last.x.toLocaleString('en-US')} ${xLabel}`
      })
      return `${title}: ${lines.join('; ')}.`
    })
    .join(' ')
}

function drawn({ title, xLabel, series }: Panel): string {
  const points = series.flatMap((one) => one.points)
  const exponents = points.map(({ x }) => Math.log10(x))
  const [from, to] = [Math.min(...exponents), Math.max(...exponents)]
  const top = niceTop(Math.max(...points.map(({ high }) => high)))
  const x = (value: number): string => {
    const share = to === from ? 0.5 : (Math.log10(value) - from) / (to - from)
    return (PLOT.left + share * (PANEL.width - PLOT.left - PLOT.right)).toFixed(1)
  }
  const y = (value: number): string =>
    (PANEL.height - PLOT.bottom - (value / top) * (PANEL.height - PLOT.top - PLOT.bottom)).toFixed(1)
  const right = PANEL.width - PLOT.right
  const ticks = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b)
  return [
    `<text class="title" x="8" y="16">${escaped(title)}</text>`,
    `<line class="axis" x1="${PLOT.left}" y1="${y(0)}" x2="${right}" y2="${y(0)}"/>`,
    ...[0, top].map((value) => `<text x="${PLOT.left - 6}" y="${y(value)}" text-anchor="end">${short(value)}</text>`),
    ...ticks.map(
      (value) =>
        `<text x="${x(value)}" y="${PANEL.height - PLOT.bottom + 15}" text-anchor="middle">${short(value)}</text>`,
    ),
    `<text x="${right}" y="${PANEL.height - 8}" text-anchor="end">${escaped(xLabel)}</text>`,
    ...series.flatMap((one, at) => {
      const { className, dash } = LINES[at % LINES.length] as (typeof LINES)[number]
      const last = one.points.at(-1)
      return [
        ...one.points.map(
          ({ x: each, low, high }) =>
            `<line class="range ${className}" x1="${x(each)}" y1="${y(low)}" x2="${x(each)}" y2="${y(high)}"/>`,
        ),
        `<polyline class="${className}"${dash} points="${one.points.map((point) => `${x(point.x)},${y(point.y)}`).join(' ')}"/>`,
        ...one.points.map((point) => `<circle class="${className}" cx="${x(point.x)}" cy="${y(point.y)}" r="2.5"/>`),
        last === undefined
          ? ''
          : `<text class="value" x="${x(last.x)}" y="${Number(y(last.y)) - 6}" text-anchor="end">${escaped(`${one.name} ${rounded(last.y)}`.trim())}</text>`,
      ]
    }),
  ]
    .filter((line) => line !== '')
    .join('\n')
}

/** 1, 2 or 5 times a power of ten, at least the value. */
function niceTop(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5].find((times) => times * power >= value) ?? 10) * power
}

function short(value: number): string {
  if (value >= 1_000_000) return `${value / 1_000_000}M`
  if (value >= 1_000) return `${value / 1_000}k`
  return String(Number(value.toPrecision(2)))
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
