/** The alerts that a user loads into Prometheus, and the series that they are tried by. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'

export const ALERTS_FOLDER = fileURLToPath(new URL('../../scripts/prometheus/', import.meta.url))

/** https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/ */
interface Alert {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly annotations: { readonly summary: string }
}

/** https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/ */
interface AlertTest {
  readonly name: string
  readonly alert_rule_test: readonly {
    readonly alertname: string
    readonly eval_time: string
    readonly exp_alerts?: readonly object[]
  }[]
}

export const alertsText = (): string => readFileSync(`${ALERTS_FOLDER}alerts.yml`, 'utf8')
const alertTestsText = (): string => readFileSync(`${ALERTS_FOLDER}alerts.test.yml`, 'utf8')

export function alertsIn(text: string): readonly Alert[] {
  const { groups } = parse(text) as { groups: { rules: Alert[] }[] }
  return groups.flatMap(({ rules }) => rules)
}

export function alertTests(): readonly AlertTest[] {
  return (parse(alertTestsText()) as { tests: AlertTest[] }).tests
}
