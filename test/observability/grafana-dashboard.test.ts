/** The dashboard that a user imports into Grafana shows metrics that there are. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { prometheusMetrics } from '../../src/observability/prometheus.ts'
import { readMetrics } from './prometheus-text.ts'

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
/** https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/ */
const dashboard = z.looseObject({
  uid: z.string(),
  schemaVersion: z.number(),
  templating: z.looseObject({ list: z.array(z.looseObject({ name: z.string() })) }),
  panels: z.array(
    z.looseObject({
      id: z.number(),
      title: z.string(),
      datasource: z.strictObject({ type: z.literal('prometheus'), uid: z.string().regex(/^\$\{datasource\}$/) }),
      gridPos: z.strictObject({ h: z.number(), w: z.number(), x: z.number(), y: z.number() }),
      targets: z.array(z.looseObject({ expr: z.string() })).min(1),
    }),
  ),
})
const { panels, templating } = dashboard.parse(JSON.parse(read('scripts/prometheus/grafana-dashboard.json')))
const exprs = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))

const STANDING = {
  webhooks: {},
  oldestPendingSeconds: 0,
  syncItems: {},
  stale: 0,
  staleStreams: [{ provider: 'acme', stream: 'deals', count: 1 }],
  circuitsOpen: 0,
  incidentsOpen: {},
  incidentsUnattended: {},
  health: {},
}

/** From the first cell of the page's tables; `_shared_used` stands for `integrations_shared_used`. */
const metrics = new Set(
  [...read('docs/behaviour/metrics.md').matchAll(/^\| (`integrations_[^|]+)\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`(?:integrations)?(_\w+)`/g)].map(([, rest]) => `integrations${rest}`),
  ),
)

describe('the Grafana dashboard', () => {
  it('asks for metrics only that are on the page', () => {
    const asked = exprs.flatMap((expr) => expr.match(/\bintegrations_\w+/g) ?? [])
    expect(asked.length).toBeGreaterThan(15)
    expect(asked.filter((name) => !metrics.has(name.replace(/_bucket$/, '')))).toEqual([])
  })

  it('shows every metric of the page but the echoes', () => {
    const text = exprs.join('\n')
    expect([...metrics].filter((name) => !text.includes(name))).toEqual(['integrations_echoes_total'])
  })

  it('chooses a provider only where the series say which', async () => {
    const text = await prometheusMetrics({ byIntegration: false, streamsOf: () => ['deals'] }).text(STANDING, ['acme'])
    const withProvider = new Set(
      readMetrics(text).flatMap(({ name, labels }) => (labels.provider === undefined ? [] : [name])),
    )
    const chosen = exprs.flatMap((expr) =>
      [...expr.matchAll(/(\w+)\{provider=~"\$provider"\}/g)].map(([, name = '']) => name),
    )
    expect(chosen.length).toBeGreaterThan(5)
    expect(chosen.filter((name) => !withProvider.has(name))).toEqual([])
  })

  it('uses variables only that it has', () => {
    const own = ['__rate_interval', ...templating.list.map(({ name }) => name)]
    const used = exprs.flatMap((expr) => [...expr.matchAll(/\$(\w+)/g)].map(([, name]) => name))
    expect(used.filter((name) => name === undefined || !own.includes(name))).toEqual([])
  })

  it('has panels side by side, each once', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    expect(new Set(panels.map(({ gridPos }) => `${gridPos.x}/${gridPos.y}`)).size).toBe(panels.length)
  })
})
