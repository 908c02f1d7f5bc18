/** What Lighthouse says of how accessible five pages are. It is installed for this test alone: 200 packages that nothing else needs. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { findChromium, startChromium } from './chromium.ts'
import type { Site } from './dashboard/site.ts'
import { startSite } from './dashboard/site.ts'

/** The last that runs on Node 20. */
const LIGHTHOUSE = 'lighthouse@12'
const run = promisify(execFile)

interface Report {
  readonly categories: { readonly accessibility: { readonly score: number | null } }
  readonly audits: Readonly<Record<string, { readonly title: string; readonly score: number | null }>>
  readonly finalDisplayedUrl: string
}

let site: Site
let browser: Browser
let folder: string
let cookie: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lighthouse-'))
  await run('npm', ['install', '--prefix', folder, '--no-save', '--no-audit', '--no-fund', LIGHTHOUSE], {
    maxBuffer: 16 * 1_048_576,
  })
  site = await startSite()
  browser = await startChromium()
  const { context } = await site.visit(browser, 'operate')
  cookie = (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  await context.close()
}, 300_000)

afterAll(async () => {
  await browser?.close()
  await site?.close()
  rmSync(folder, { recursive: true, force: true })
})

it.each<[string, (site: Site) => string]>([
  ['home', () => ''],
  ['an integration', ({ rows }) => `/integrations/${rows.failing}`],
  ['the list of webhooks', () => '/webhooks'],
  ['a webhook', ({ rows }) => `/webhooks/${rows.webhook}`],
  ['charts', () => '/charts'],
])('%s has 100 points of 100', { timeout: 180_000 }, async (name, path) => {
  const url = site.root + path(site)
  const file = join(folder, `${name.replaceAll(' ', '-')}.json`)
  await run(
    process.execPath,
    [
      join(folder, 'node_modules/lighthouse/cli/index.js'),
      url,
      '--only-categories=accessibility',
      '--output=json',
      `--output-path=${file}`,
      '--quiet',
      '--no-enable-error-reporting',
      '--chrome-flags=--headless=new --no-sandbox --disable-gpu',
      `--extra-headers=${JSON.stringify({ Cookie: cookie })}`,
    ],
    { env: { ...process.env, CHROME_PATH: findChromium() ?? '' }, maxBuffer: 16 * 1_048_576 },
  )
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report
  const failed = Object.values(report.audits).filter(({ score }) => score !== null && score < 1)
  expect({
    url: report.finalDisplayedUrl,
    score: report.categories.accessibility.score,
    failed: failed.map(({ title }) => title),
  }).toEqual({ url, score: 1, failed: [] })
})
