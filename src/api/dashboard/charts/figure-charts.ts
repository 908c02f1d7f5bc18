/** The charts of a page, from the figures of a window. Rule: docs/behaviour/charts.md, "Figures". */
import type { ChartMark } from '../../../rollups/marks.ts'
import type { ChartPoint, ChartSeries } from '../../../rollups/series.ts'
import type { ChartInput, ChartLine } from './charts.ts'
import { chart, markList } from './charts.ts'

type Drawing = Pick<ChartInput, 'title' | 'kind' | 'unit' | 'empty'> & {
  readonly lines: Readonly<Record<string, (point: ChartPoint) => number | null>>
  /** Names of lines in the colour of trouble. */
  readonly bad?: readonly string[]
}

const NO_CALLS = 'No calls in this time.'
const NO_WEBHOOKS = 'No webhooks in this time.'

export const FIGURE_CHARTS = {
  calls: {
    title: 'Calls',
    kind: 'bars',
    unit: 'count',
    empty: NO_CALLS,
    lines: {
      succeeded: ({ calls, failures }) => calls - failures,
      'failed: throttle': ({ byClass }) => byClass.throttle,
      'failed: upstream': ({ byClass }) => byClass.upstream,
      'failed: client': ({ byClass }) => byClass.client,
      'failed: unknown': ({ byClass }) => byClass.unknown,
    },
    bad: ['failed: upstream'],
  },
  failureRate: {
    title: 'Share of failed calls',
    kind: 'line',
    unit: 'share',
    empty: 'No failed calls in this time.',
    lines: { failed: ({ failureRate }) => failureRate },
    bad: ['failed'],
  },
  durations: {
    title: 'Duration of calls',
    kind: 'line',
    unit: 'ms',
    empty: NO_CALLS,
    lines: {
      p50: ({ durationMs }) => durationMs.p50,
      p95: ({ durationMs }) => durationMs.p95,
      p99: ({ durationMs }) => durationMs.p99,
    },
  },
  webhooks: {
    title: 'Webhooks',
    kind: 'line',
    unit: 'count',
    empty: NO_WEBHOOKS,
    lines: {
      received: ({ webhooks }) => webhooks.received,
      processed: ({ webhooks }) => webhooks.processed,
      failed: ({ webhooks }) => webhooks.failed,
    },
    bad: ['failed'],
  },
  lag: {
    title: 'Webhooks: from arrival to settlement',
    kind: 'line',
    unit: 'ms',
    empty: NO_WEBHOOKS,
    lines: { p50: ({ lagMs }) => lagMs.p50, p95: ({ lagMs }) => lagMs.p95 },
  },
  items: {
    title: 'Sync items a minute',
    kind: 'area',
    unit: 'aMinute',
    empty: 'No sync items in this time.',
    lines: { settled: ({ itemsAMinute }) => itemsAMinute },
  },
} as const satisfies Readonly<Record<string, Drawing>>

export type FigureChart = keyof typeof FIGURE_CHARTS

/** One of the charts, with the marks that fall into its time. */
export function figureChart(which: FigureChart, series: ChartSeries, marks: readonly ChartMark[] = []) {
  const { lines, bad = [], ...drawing }: Drawing = FIGURE_CHARTS[which]
  const { points, missing } = series
  const drawn = Object.entries(lines).map(
    ([name, figure]): ChartLine => ({ name, values: points.map(figure), isBad: bad.includes(name) }),
  )
  return chart({ id: `chart-${which}`, ...drawing, ...timeOf(series), lines: drawn, marks, missing })
}

/** The numbers of the marks over these charts, in words. */
export const figureMarks = (series: ChartSeries, marks: readonly ChartMark[]) => markList({ ...timeOf(series), marks })

function timeOf({ points, pointSeconds, to }: ChartSeries): Pick<ChartInput, 'at' | 'to'> {
  const at = points.map((point) => point.at)
  return { at, to: new Date((at.at(-1) ?? to).getTime() + pointSeconds * 1_000) }
}
