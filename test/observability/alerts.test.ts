/** The alerts, the page that shows them, the runbook, and what /metrics prints. Whether they fire: alerts.long.test.ts. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { prometheusMetrics } from '../../src/observability/prometheus.ts'
import { alertsIn, alertsText, alertTests } from './alert-files.ts'
import { readMetrics } from './prometheus-text.ts'

const page = (path: string): string => readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8')
const ALERTS = alertsIn(alertsText())
const NAMES = ALERTS.map(({ alert }) => alert)
/** A metric, and what of its labels has to have which value. */
const SELECTOR = /(integrations_[a-z_]+)(?:\{([^}]*)\})?/g
const STANDING = {
  webhooks: { pending: 3, processing: 1, failed: 2 },
  oldestPendingSeconds: 12.5,
  syncItems: { pending: 0, processing: 0, failed: 7 },
  stale: 1,
  staleStreams: [],
  circuitsOpen: 2,
  incidentsOpen: { health: 1, circuit: 0, sync: 2 },
  incidentsUnattended: { health: 1, circuit: 0, sync: 0 },
  health: { healthy: 4, degraded: 0, failing: 1, disabled: 0 },
}

interface Selector {
  readonly name: string
  /** Null: all of the metric's series. */
  readonly label: string | null
  readonly value: string
}

/** `label=~"a|b"` is a selector for each of its values. */
function selectorsOf(expr: string): Selector[] {
  return [...expr.matchAll(SELECTOR)].flatMap(([, name = '', given = '']): Selector[] => {
    const [, label, values] = /^(\w+)=~?"([^"]*)"$/.exec(given) ?? []
    if (label === undefined || values === undefined) {
      expect(given, `${name}: one label, = or =~`).toBe('')
      return [{ name, label: null, value: '' }]
    }
    return values.split('|').map((value) => ({ name, label, value }))
  })
}

describe('the alerts', () => {
  it('stand on the page as they stand in the file', () => {
    const [, onPage = ''] = /^## Alerts$[\s\S]*?^```yaml\n([\s\S]*?)^```$/m.exec(page('behaviour/metrics.md')) ?? []
    expect(NAMES.length).toBeGreaterThan(5)
    expect(onPage).toBe(alertsText().replace(/^(#.*\n)+/, ''))
    expect(page('behaviour/metrics.md')).toContain('](../../scripts/prometheus/alerts.yml)')
  })

  it('each go by series that /metrics has from its first answer on', async () => {
    const metrics = prometheusMetrics({ byIntegration: false })
    metrics.workersMade(() => true)
    const samples = readMetrics(await metrics.text(STANDING, ['acme']))
    for (const { alert, expr } of ALERTS) {
      const selectors = selectorsOf(expr)
      expect(selectors.length, alert).toBeGreaterThan(0)
      for (const { name, label, value } of selectors) {
        const fitting = samples.filter(
          (sample) => sample.name === name && (label === null || sample.labels[label] === value),
        )
        expect(fitting.length, `${alert}: ${name} with ${label} ${value}`).toBeGreaterThan(0)
        // With metrics.by_integration only. Without it the series of a provider are one group.
        for (const [, list = ''] of expr.matchAll(/\bby \(([^)]+)\)/g))
          for (const by of list.split(', '))
            if (by !== 'integration')
              expect(Object.keys(fitting[0]?.labels ?? {}), `${alert}: by (${by})`).toContain(by)
      }
      // Nothing but these may be meant as a metric.
      const names = expr
        .replaceAll(SELECTOR, '')
        .replaceAll('count_over_time(', '')
        .match(/\b[a-z]+_[a-z_]+\b/g)
      expect(names, alert).toBeNull()
    }
  })

  it('go by each integration where counters say which', async () => {
    const metrics = prometheusMetrics({ byIntegration: true })
    metrics.webhookReceived({ provider: 'acme', id: 7 }, 'bad_signature')
    const text = await metrics.text(STANDING, ['acme'])
    expect(text).toContain(
      'integrations_webhooks_received_total{provider="acme",outcome="bad_signature",integration="7"} 1',
    )
    const { expr = '' } = ALERTS.find(({ alert }) => alert === 'IntegrationsSignaturesRefused') ?? {}
    expect(expr).toContain('by (provider, integration)')
  })

  it('each have a row in the runbook, and no row is of another one', () => {
    const [, table = ''] = /^## An alert fired$([\s\S]*?)^## /m.exec(page('operating.md')) ?? []
    const rows = [...table.matchAll(/^\| `(\w+)` \| `integrations [^|]+\| ([^|]+) \|$/gm)]
    expect(rows.map(([, name]) => name).sort()).toEqual([...NAMES].sort())
  })

  it('are each tried by series that fire them, and by others that do not', () => {
    const said = alertTests().flatMap(({ name, alert_rule_test }) =>
      NAMES.flatMap((alert) => {
        const looks = alert_rule_test.filter(({ alertname }) => alertname === alert)
        const isFired = looks.some(({ exp_alerts = [] }) => exp_alerts.length > 0)
        return looks.length === 0 ? [] : [{ alert, name, isFired }]
      }),
    )
    const tried = (isFired: boolean): string[] => [
      ...new Set(said.filter((one) => one.isFired === isFired).map(({ alert }) => alert)),
    ]
    expect(tried(true).sort()).toEqual([...NAMES].sort())
    expect(tried(false).sort()).toEqual([...NAMES].sort())
  })
})
