/** The alerts in Prometheus' own hands: `promtool test rules` over scripts/prometheus. Rule: docs/behaviour/metrics.md, "Alerts". */
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../dev/local-process.ts'
import { findPromtool } from '../support/promtool.ts'
import { ALERTS_FOLDER, alertsIn, alertsText } from './alert-files.ts'

const BUILD_MS = 1_200_000
const TRY_SECONDS = 60

let promtool: string
let folder: string

beforeAll(async () => {
  promtool = await findPromtool({ log: console.log })
  folder = await mkdtemp(join(tmpdir(), 'durable-alerts-'))
  await cp(ALERTS_FOLDER, folder, { recursive: true })
}, BUILD_MS)

afterAll(() => rm(folder, { recursive: true, force: true }))

/** @param alerts in the place of the file's */
async function tried(alerts: string): Promise<{ code: number | null; output: string }> {
  await writeFile(join(folder, 'alerts.yml'), alerts)
  return run(promtool, ['alerts.test.yml'], { cwd: folder, seconds: TRY_SECONDS, env: process.env })
}

describe('the alerts', () => {
  it('fire by the series that shall fire them, and by no others', async () => {
    const { code, output } = await tried(alertsText())
    expect({ code, output: output.trim() }).toEqual({ code: 0, output: 'SUCCESS' })
  })

  it.each(alertsIn(alertsText()).map(({ alert }) => alert))(
    '%s is not let through where it waits a minute longer',
    async (alert) => {
      const later = alertsText().replace(
        new RegExp(`(- alert: ${alert}\\n[\\s\\S]*?for: )(\\d+)m`),
        (_, before: string, minutes: string) => `${before}${Number(minutes) + 1}m`,
      )
      const { code, output } = await tried(later)
      expect({ code, isNamed: output.includes(alert) }).toEqual({ code: 1, isNamed: true })
    },
  )
})
