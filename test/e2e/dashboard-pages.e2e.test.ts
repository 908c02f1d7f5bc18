/** Every page in a real browser: as one who may operate, as a reader, without script, behind a proxy; what checkers say of it. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CspEvaluator } from 'csp_evaluator/dist/evaluator.js'
import { Severity } from 'csp_evaluator/dist/finding.js'
import { CspParser } from 'csp_evaluator/dist/parser.js'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CANARY } from '../support/dashboard-rows.ts'
import { startChromium } from './chromium.ts'
import { crawl } from './dashboard/crawl.ts'
import { ACT_PATHS, PATHS } from './dashboard/paths.ts'
import type { Site, Visit } from './dashboard/site.ts'
import { startSite } from './dashboard/site.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const VNU = createRequire(import.meta.url).resolve('vnu-jar/build/dist/vnu.jar')
const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1_280, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1_280, height: 900 } },
  contrast: { contrast: 'more', viewport: { width: 1_280, height: 900 } },
  phone: { colorScheme: 'light', viewport: { width: 360, height: 740 } },
} as const

/** Each is a page that says why not. */
const REFUSED = ['/nowhere', '/do/post/webhooks/replay?limit=none', '/search?q=nothing-is-so-named', '/search/payloads']

let site: Site
let browser: Browser

beforeAll(async () => {
  site = await startSite()
  browser = await startChromium()
})

afterAll(async () => {
  await browser?.close()
  await site?.close()
})

const paths = (acts = true): string[] => [...PATHS, ...(acts ? ACT_PATHS : [])].map((path) => path(site.rows))
/** What is wrong with a page beyond its words. Text, since it runs in the browser. */
const faultsOf = (page: Page): Promise<string[]> =>
  page.evaluate(`(() => {
    const faults = []
    const { documentElement: html } = document
    if ('wasRun' in window) faults.push('a script of a stranger has run')
    if (document.querySelector('[data-xss], img[src="x"]')) faults.push('markup of a stranger is markup')
    if (html.outerHTML.includes('${CANARY}')) faults.push('a secret is on the page')
    if (html.scrollWidth > html.clientWidth) faults.push('it is wider than the screen: ' + html.scrollWidth)
    if (document.querySelectorAll('h1').length !== 1) faults.push('it has not one h1')
    return faults
  })()`)

async function axe(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  return page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => id + ': ' + html.slice(0, 150) + ' ' + failureSummary)))`)
}

describe.each(Object.keys(LOOKS) as (keyof typeof LOOKS)[])('to one who may operate, %s', (name) => {
  it('each page is there, whole, quiet, and axe finds nothing', { timeout: 400_000 }, async () => {
    const visit = await site.visit(browser, 'operate', LOOKS[name])
    const faults: string[] = []
    const seen = await crawl(site, visit, paths(), async (one) => {
      if (one.status !== 200) faults.push(`${one.path}: ${one.status}`)
      for (const fault of [...(await faultsOf(visit.page)), ...(await axe(visit.page))])
        faults.push(`${one.path}: ${fault}`)
    })
    await visit.context.close()
    expect({ faults, complaints: visit.complaints }).toEqual({ faults: [], complaints: [] })
    expect(seen.length).toBeGreaterThan(paths().length)
  })
})

it('a reader sees each page, and on none of them a form that changes anything', { timeout: 300_000 }, async () => {
  const visit = await site.visit(browser, 'read')
  const faults: string[] = []
  await crawl(site, visit, paths(false), async (one) => {
    if (one.status !== 200) faults.push(`${one.path}: ${one.status}`)
    const forms: string[] = await visit.page.evaluate(
      `[...document.querySelectorAll('form[method=post]')].map((form) => form.getAttribute('action'))`,
    )
    const acts = await visit.page.locator('a[href*="/do/"]').count()
    faults.push(...forms.filter((action) => !action.endsWith('/logout')).map((action) => `${one.path}: ${action}`))
    if (acts > 0) faults.push(`${one.path}: ${acts} links to acts`)
  })
  for (const path of ACT_PATHS.map((of) => of(site.rows)).filter((each) => each.startsWith('/do/')))
    expect([path, (await visit.page.goto(site.root + path))?.status()]).toEqual([path, 403])
  await visit.context.close()
  expect(faults).toEqual([])
})

describe('without script', () => {
  let visit: Visit
  beforeAll(async () => {
    visit = await site.visit(browser, 'operate', { javaScriptEnabled: false })
  })
  afterAll(() => visit.context.close())

  it('each page is there', { timeout: 300_000 }, async () => {
    const faults: string[] = []
    await crawlWithoutScript(visit, async (path, status) => {
      if (status !== 200) faults.push(`${path}: ${status}`)
      if (status === 200 && (await visit.page.locator('h1').count()) !== 1) faults.push(`${path}: no h1`)
    })
    expect(faults).toEqual([])
  })

  it('an act on all that a filter finds is asked, done, and told', async () => {
    const { page } = visit
    await page.goto(`${site.root}/webhooks?status=failed`)
    await page.getByRole('link', { name: 'Dismiss all of these' }).click()
    expect(await page.locator('.notice').textContent()).toMatch(/^Dismiss \d+ webhooks of \d+ integrations/)
    await page.getByRole('button', { name: /yes$/ }).click()
    expect(await page.getByRole('status').textContent()).toMatch(/^Dismissed: \d+ webhooks of \d+ integrations\.$/)
    expect(new URL(page.url()).search).toBe('?status=failed')
    await page.goto(`${site.root}/webhooks?status=failed&dismissed=true`)
    expect(await page.locator('tbody tr').count()).toBeGreaterThan(5)
    await site.test.sql`update integration_webhooks set dismissed_at = null`
  })
})

/** Without script there is no evaluating of it either: the links are those of the text. */
async function crawlWithoutScript(
  { page }: Visit,
  look: (path: string, status: number) => Promise<void>,
): Promise<void> {
  for (const path of paths()) {
    const answer = await page.goto(site.root + path)
    await look(path, answer?.status() ?? 0)
  }
}

it('the Nu HTML checker finds nothing, nor the CSP evaluator above low', { timeout: 300_000 }, async () => {
  const { context, page } = await site.visit(browser, 'operate', { javaScriptEnabled: false })
  const folder = mkdtempSync(join(tmpdir(), 'dashboard-'))
  const weak = new Set<string>()
  const files = new Map<string, string>()
  for (const path of [...paths(), ...REFUSED]) {
    const answer = await page.goto(site.root + path)
    if (answer === null) continue
    files.set(`${files.size}.html`, path)
    writeFileSync(join(folder, `${files.size - 1}.html`), await answer.text())
    const policy = (await answer.headerValue('content-security-policy')) ?? ''
    for (const { severity, directive, description } of new CspEvaluator(new CspParser(policy).csp).evaluate())
      if (severity < Severity.INFO) weak.add(`${directive}: ${description}`)
  }
  await context.close()
  const checked = await promisify(execFile)(
    'java',
    ['-jar', VNU, '--format', 'json', '--exit-zero-always', ...[...files.keys()].map((name) => join(folder, name))],
    { maxBuffer: 64 * 1_048_576 },
  )
  rmSync(folder, { recursive: true })
  const { messages } = JSON.parse(checked.stderr) as {
    messages: { url: string; message: string; extract?: string }[]
  }
  const found = messages.map(({ url, message, extract = '' }) => {
    const name = url.slice(url.lastIndexOf('/') + 1)
    return `${files.get(name)}: ${message} ${extract}`
  })
  expect({ found, weak: [...weak] }).toEqual({ found: [], weak: [] })
})

it('behind TLS and under a path each page, its files, its forms and its stream are found', {
  timeout: 300_000,
}, async () => {
  const behind = await startSite({ behind: { prefix: '/tools' } })
  try {
    const visit = await behind.visit(browser, 'operate')
    const { page } = visit
    const strayed = new Set<string>()
    page.on('request', (request) => {
      if (!request.url().startsWith(`${behind.root}`)) strayed.add(request.url())
    })
    const faults: string[] = []
    await crawl(
      behind,
      visit,
      PATHS.map((path) => path(behind.rows)),
      async (one) => {
        if (one.status !== 200) faults.push(`${one.path}: ${one.status}`)
      },
    )
    expect({ faults, strayed: [...strayed] }).toEqual({ faults: [], strayed: [] })
    await page.goto(`${behind.root}/integrations`)
    await page.getByRole('button', { name: 'Live: on' }).waitFor()
    await behind.test.integrations.update(behind.rows.healthy, { name: 'Renamed meanwhile' })
    await page.getByText('Renamed meanwhile').waitFor()
    await page.goto(`${behind.root}/do/post/integrations/${behind.rows.off}/enable?back=/tools/operator/integrations`)
    await page.getByRole('button', { name: 'Enable' }).click()
    await page.getByRole('status').waitFor()
    expect((await behind.test.integrations.get(behind.rows.off)).isActive).toBe(true)
    await visit.context.close()
  } finally {
    await behind.close()
  }
})
