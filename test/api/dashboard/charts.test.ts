/** Charts as text: what is drawn, said and escaped, whatever the figures are. */
import { describe, expect, it } from 'vitest'
import type { ChartInput } from '../../../src/api/dashboard/charts/charts.ts'
import { chart, markList, sparkline } from '../../../src/api/dashboard/charts/charts.ts'
import { figureChart } from '../../../src/api/dashboard/charts/figure-charts.ts'
import { STYLE } from '../../../src/api/dashboard/frame/assets.ts'
import type { ChartPoint } from '../../../src/rollups/series.ts'

const START_MS = Date.UTC(2026, 2, 15, 10)
const MINUTE_MS = 60_000
const at = (n: number) => new Date(START_MS + n * MINUTE_MS)

const drawn = async (input: Partial<ChartInput> & Pick<ChartInput, 'lines'>): Promise<string> => {
  const points = input.lines[0]?.values.length ?? 0
  const moments = Array.from({ length: points }, (_, n) => at(n))
  return String(
    await chart({ id: 'c', title: 'Calls', kind: 'line', unit: 'count', at: moments, to: at(points), ...input }),
  )
}
const one = (values: readonly (number | null)[], more: Partial<ChartInput> = {}) =>
  drawn({ lines: [{ name: 'calls', values }], ...more })
const countOf = (text: string, part: string | RegExp): number => text.split(part).length - 1

/** Everything that a browser would refuse under the pages' policy, or that would run. */
const REFUSED = /\sstyle=|<style|<script|\son[a-z]+=|href=|url\(/

describe('a chart', () => {
  it('has axes, gridlines, ticks, a title, a description, a legend and a table', async () => {
    const text = await one([1, 4, 9, 16])
    expect(text).toMatch(/<svg viewBox="0 0 440 200"[^>]* role="img" aria-labelledby="c-title c-desc">/)
    expect(text).toContain('<title id="c-title">Calls</title>')
    expect(text).toContain('4 points from 2026-03-15 10:00 to 2026-03-15 10:04 UTC. calls: at most 16.')
    for (const level of ['0', '5', '10', '15', '20']) expect(text).toContain(`text-anchor="end">${level}</text>`)
    for (const tick of ['10:00', '10:02', '10:04']) expect(text).toContain(`text-anchor="middle">${tick}</text>`)
    expect(text).toContain('<li class="s1">calls</li>')
    expect(text).toContain('<details><summary>Calls as a table</summary>')
    expect(countOf(text, '<tr><th scope="row">')).toBe(4)
    expect(text).not.toMatch(REFUSED)
  })

  it.each([
    ['no point', []],
    ['only nulls', [null, null]],
    ['only zeros', [0, 0, 0]],
    ['nothing that is a figure', [Number.NaN, Number.POSITIVE_INFINITY, -1]],
  ])('says so in words for %s', async (_, values) => {
    const text = await one(values, { empty: 'No calls in this time.' })
    expect(text).toContain('No calls in this time.')
    expect(text).not.toContain('<svg')
  })

  it.each(['line', 'area', 'bars'] as const)('draws one point, a gap and huge figures as %s', async (kind) => {
    for (const values of [
      [7],
      [1, null, 3, null, null, 2],
      [Number.MAX_VALUE, 1],
      [1e-9, 0],
      [Number.MAX_SAFE_INTEGER],
    ]) {
      const text = await one(values, { kind })
      expect(text).toContain('<svg')
      expect(text).not.toMatch(/NaN|Infinity|undefined/)
      // A number that is drawn stays in the drawing.
      for (const [, number] of text.matchAll(/ (?:x|y|x1|x2|y1|y2)="(-?[\d.]+)"/g)) {
        expect(Number(number)).toBeGreaterThanOrEqual(0)
        expect(Number(number)).toBeLessThanOrEqual(440)
      }
    }
  })

  it('breaks a line where nothing is known', async () => {
    const text = await one([1, 2, null, 4, 5])
    const [, path = ''] = text.match(/class="stroke s1"[^>]* d="([^"]*)"/) ?? []
    expect(countOf(path, 'M')).toBe(2)
    expect(countOf(path, 'L')).toBe(2)
  })

  it('stands bars upon each other', async () => {
    const text = await drawn({
      kind: 'bars',
      lines: [
        { name: 'failed', values: [2], isBad: true },
        { name: 'succeeded', values: [8] },
      ],
    })
    // 10 in all: the upper bar ends at the top of the plot, the lower one at a fifth.
    expect(text).toMatch(/class="fill sbad" d="M48 176V145\.2h\S+V176z"/)
    expect(text).toMatch(/class="fill s2" d="M48 145\.2V22h\S+V145\.2z"/)
    expect(text).toContain('<li class="sbad">failed</li>')
  })

  it('merges what has more than 120 points: a line keeps its peaks, bars keep their sums', async () => {
    const values = Array.from({ length: 1_000 }, (_, n) => (n === 777 ? 500 : 1))
    const line = await one(values)
    expect(line).toContain('112 points')
    expect(line).toContain('calls: at most 500.')
    const bars = await one(values, { kind: 'bars' })
    expect(bars).toContain('calls: at most 508.')
    expect(line.length).toBeLessThan(40_000)
  })

  it('draws marks as numbered lines, whose words stand in a list of their own, those within its time only', async () => {
    const mark = (n: number, text: string) => ({ at: at(n), kind: 'deployment', text })
    const marks = [mark(-1, 'before'), mark(1, '1.4.0'), mark(2, '1.5.0'), mark(99, 'after')]
    const text = await one([1, 2, 3, 4], { marks })
    const words = String(await markList({ at: [0, 1, 2, 3].map(at), to: at(4), marks }))
    expect(countOf(text, '<g class="mark">')).toBe(2)
    expect(text).toContain('<title>deployment: 1.4.0</title>')
    expect(text).not.toContain('<ol')
    expect(words).toMatch(
      /<li><time datetime="2026-03-15T10:01:00.000Z">2026-03-15 10:01<\/time> deployment: 1\.4\.0<\/li>/,
    )
    expect(text + words).not.toContain('before')
    expect(text + words).not.toContain('after')
  })

  it('gives marks that are near each other one number, left of the line at the end', async () => {
    const marks = [0.1, 0.11, 0.12, 2, 3.9, 3.95].map((n) => ({ at: at(n), kind: 'incident opened', text: `at ${n}` }))
    const text = await one([1, 2, 3, 4], { marks })
    expect(
      [...text.matchAll(/<text x="[\d.]+" y="12"( text-anchor="end")?>([^<]+)</g)].map(([, end, of]) => [of, end]),
    ).toEqual([
      ['1–3', undefined],
      ['4', undefined],
      ['5–6', ' text-anchor="end"'],
    ])
  })

  it('draws at most 30 marks and 6 lines', async () => {
    const marks = Array.from({ length: 100 }, (_, n) => ({ at: at(n / 50), kind: 'incident opened', text: `n${n}` }))
    expect(countOf(await one([1, 2, 3], { marks }), '<g class="mark">')).toBe(30)
    const lines = Array.from({ length: 9 }, (_, n) => ({ name: `l${n}`, values: [1, 2] }))
    expect(countOf(await drawn({ lines }), 'class="stroke')).toBe(6)
  })

  it('escapes what names and marks say', async () => {
    const evil = '"><script>alert(1)</script>'
    const text = await drawn({
      title: evil,
      lines: [{ name: evil, values: [1, 2] }],
      marks: [{ at: at(1), kind: evil, text: evil }],
    })
    expect(text).not.toContain('<script')
    expect(text).toContain('&quot;&gt;&lt;script&gt;')
  })

  it('says what is not counted yet', async () => {
    const text = await one([1, 2, 3], { missing: { from: at(0), to: at(2) } })
    expect(text).toContain('<rect class="gap"')
    expect(text).toContain('nothing is counted yet')
  })

  it.each([
    ['count', 1_234_567, '1.23M'],
    ['ms', 850, '850 ms'],
    ['ms', 1_500, '1.5 s'],
    ['ms', 90_000, '1.5 min'],
    ['ms', 7_200_000, '2 h'],
    ['ms', 172_800_000, '2 d'],
    ['share', 0.125, '12.5 %'],
    ['aMinute', 0.4, '0.4'],
  ] as const)('writes %s %d as %s', async (unit, value, text) => {
    expect(await one([value], { unit })).toContain(`calls: at most ${text}.`)
  })

  it('writes days below a chart of days', async () => {
    const days = Array.from({ length: 30 }, (_, n) => new Date(START_MS + n * 86_400_000))
    const text = await drawn({
      at: days,
      to: new Date(START_MS + 30 * 86_400_000),
      lines: [{ name: 'calls', values: days.map(() => 1) }],
    })
    expect(text).toMatch(/text-anchor="middle">\d+ (Mar|Apr)<\/text>/)
  })

  it('has its colours in one style of classes, which loads nothing', () => {
    expect(STYLE.text).toContain('.chart')
    expect(STYLE.text).not.toMatch(/url\(|@import|expression/)
  })
})

describe('a sparkline', () => {
  it('draws a bar an hour, the failed part over it, and says the sums', async () => {
    const text = String(await sparkline({ calls: [0, 10, 5], failures: [0, 1, 0] }))
    expect(text).toContain('aria-label="15 calls, 1 failed"')
    expect(text).toContain('class="fill s1" d="M4 24V0h3V24zM8 24V12h3V24z"')
    expect(text).toContain('class="fill sbad" d="M4 24V21.6h3V24z"')
    expect(text).not.toMatch(REFUSED)
  })

  it.each([
    [[], []],
    [
      [0, 0],
      [0, 0],
    ],
    [[Number.NaN], [Number.NaN]],
  ])('says that there were no calls in %j', async (calls, failures) => {
    expect(String(await sparkline({ calls, failures }))).toBe('<span class="quiet">no calls</span>')
  })
})

describe('the charts of a page', () => {
  const point = (n: number, calls: number): ChartPoint => ({
    at: at(n),
    seconds: 60,
    calls,
    failures: 1,
    byClass: { upstream: 1, throttle: 0, client: 0, unknown: 0 },
    failureRate: calls === 0 ? null : 1 / calls,
    durationMs: { p50: 10, p95: 20, p99: 30 },
    webhooks: { received: 3, processed: 2, failed: 1 },
    lagMs: { p50: 40, p95: 50, p99: 60 },
    items: { succeeded: 5, failed: 0, skipped: 0 },
    itemsAMinute: 5,
  })
  const points = [point(0, 10), point(1, 20)]
  const { at: _, seconds: __, itemsAMinute: ___, ...total } = point(0, 30)
  const series = { window: '1h', from: at(0), to: at(2), pointSeconds: 60, points, total, missing: null } as const

  it.each([
    ['calls', 'failed: throttle: at most 0; failed: upstream: at most 1;'],
    ['failureRate', 'failed: at most 10 %'],
    ['durations', 'p50: at most 10 ms; p95: at most 20 ms; p99: at most 30 ms'],
    ['webhooks', 'received: at most 3; processed: at most 2; failed: at most 1'],
    ['lag', 'p50: at most 40 ms; p95: at most 50 ms'],
    ['items', 'settled: at most 5'],
  ] as const)('shows %s', async (which, words) => {
    const text = String(await figureChart(which, series))
    expect(text).toContain(words)
    expect(text).toContain(`<figure class="chart" id="chart-${which}">`)
  })

  it('says that there were no calls', async () => {
    const empty = { ...series, points: [] }
    expect(String(await figureChart('calls', empty))).toContain('No calls in this time.')
  })
})
