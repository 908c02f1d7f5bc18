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
import { Parser } from 'htmlparser2'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CANARY } from '../support/dashboard-rows.ts'
import { startChromium } from './chromium.ts'
import { crawl, linksOf } from './dashboard/crawl.ts'
import { ACT_PATHS, PATHS } from './dashboard/paths.ts'
import type { Site, Visit } from './dashboard/site.ts'
import { startSite } from './dashboard/site.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const VNU = createRequire(import.meta.url).resolve('vnu-jar/build/dist/vnu.jar')
const DESKTOP = { width: 1_280, height: 900 }
const PHONE = { width: 360, height: 740 }
/** Each page is opened in the first one, and is then shown in the others. Dark and contrast change colours alone. */
const LOOKS = {
  light: { media: { colorScheme: 'light', contrast: 'no-preference' }, size: DESKTOP, rules: 'all' },
  dark: { media: { colorScheme: 'dark', contrast: 'no-preference' }, size: DESKTOP, rules: 'of colours' },
  contrast: { media: { colorScheme: 'light', contrast: 'more' }, size: DESKTOP, rules: 'of colours' },
  phone: { media: { colorScheme: 'light', contrast: 'no-preference' }, size: PHONE, rules: 'all' },
} as const
type Look = keyof typeof LOOKS
/** https://github.com/dequelabs/axe-core/blob/develop/doc/rule-descriptions.md */
const OF_COLOURS = ['color-contrast', 'link-in-text-block']

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

/** What axe finds on a page into which it was put. */
function axe(page: Page, rules: 'all' | 'of colours'): Promise<string[]> {
  const only = rules === 'all' ? '' : `, runOnly: { type: 'rule', values: ${JSON.stringify(OF_COLOURS)} }`
  return page.evaluate(`axe.run(document, { resultTypes: ['violations']${only} }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => id + ': ' + html.slice(0, 150) + ' ' + failureSummary)))`)
}

describe('to one who may operate', () => {
  const faults: Record<Look, string[]> = { light: [], dark: [], contrast: [], phone: [] }
  let visit: Visit
  let pages = 0

  beforeAll(async () => {
    visit = await site.visit(browser, 'operate')
    const { page } = visit
    const show = async ({ media, size }: (typeof LOOKS)[Look]): Promise<void> => {
      await page.emulateMedia(media)
      await page.setViewportSize(size)
    }
    pages = await crawl(site, paths(), async (path) => {
      await show(LOOKS.light)
      const status = (await page.goto(site.root + path))?.status()
      if (status !== 200) faults.light.push(`${path}: ${status}`)
      await page.evaluate(AXE)
      for (const [name, look] of Object.entries(LOOKS) as [Look, (typeof LOOKS)[Look]][]) {
        await show(look)
        for (const fault of [...(await faultsOf(page)), ...(await axe(page, look.rules))])
          faults[name].push(`${path}: ${fault}`)
      }
      return linksOf(page)
    })
  }, 400_000)
  afterAll(() => visit?.context.close())

  it.each(Object.keys(LOOKS) as Look[])('each page is there, whole, quiet, and axe finds nothing: %s', (name) => {
    expect({ faults: faults[name], complaints: visit.complaints }).toEqual({ faults: [], complaints: [] })
    expect(pages).toBeGreaterThan(paths().length)
  })

  it('dark and high contrast change nothing but colours, which are variables', () => {
    const css = readFileSync('src/api/dashboard/frame/assets/dashboard.css', 'utf8')
    const blocks = [...css.matchAll(/@media \(prefers-[^{]*\{\s*:root \{([^}]*)\}\s*\}/g)].map(([, text = '']) => text)
    expect(blocks).toHaveLength(css.split('(prefers-').length - 1)
    for (const line of blocks.flatMap((text) => text.split(';'))) expect(line.trim()).toMatch(/^(--[a-z0-9]+: .*)?$/)
    // On its way from one colour to the other a text is of neither.
    expect(css).not.toMatch(/transition|animation/)
  })
})

it('a reader sees each page, and on none of them a form that changes anything', { timeout: 300_000 }, async () => {
  const { context } = await site.visit(browser, 'read')
  const faults: string[] = []
  await crawl(site, paths(false), async (path) => {
    const answer = await context.request.get(site.root + path, { headers: { accept: 'text/html' } })
    if (answer.status() !== 200) faults.push(`${path}: ${answer.status()}`)
    const { forms, links } = formsAndLinks(await answer.text(), answer.url())
    faults.push(...forms.filter((action) => !action.endsWith('/logout')).map((action) => `${path}: ${action}`))
    faults.push(...links.filter((link) => link.includes('/do/')).map((link) => `${path}: ${link}`))
    return links
  })
  for (const path of ACT_PATHS.map((of) => of(site.rows)).filter((each) => each.startsWith('/do/')))
    expect([path, (await context.request.get(site.root + path)).status()]).toEqual([path, 403])
  await context.close()
  expect(faults).toEqual([])
})

/** Of the text of a page, as no script has changed it: where its forms post to, and where its links lead to. */
function formsAndLinks(html: string, url: string): { forms: string[]; links: string[] } {
  const [forms, links]: [string[], string[]] = [[], []]
  const parser = new Parser({
    onopentag(name, { method, action = '', href }) {
      if (name === 'form' && method?.toLowerCase() === 'post') forms.push(action)
      if (name === 'a' && href !== undefined) links.push(new URL(href, url).href)
    },
  })
  parser.end(html)
  return { forms, links }
}

describe('without script', () => {
  interface Seen {
    readonly path: string
    readonly status: number
    readonly headings: number
    readonly text: string
    readonly policy: string
  }
  const seen: Seen[] = []
  let visit: Visit

  beforeAll(async () => {
    visit = await site.visit(browser, 'operate', { javaScriptEnabled: false })
    const { page } = visit
    for (const path of [...paths(), ...REFUSED]) {
      const answer = await page.goto(site.root + path)
      seen.push({
        path,
        status: answer?.status() ?? 0,
        headings: await page.locator('h1').count(),
        text: (await answer?.text()) ?? '',
        policy: (await answer?.headerValue('content-security-policy')) ?? '',
      })
    }
  }, 300_000)
  afterAll(() => visit?.context.close())

  it('each page is there', () => {
    const ours = seen.filter(({ path }) => !REFUSED.includes(path))
    const wrong = ours.filter(({ status, headings }) => status !== 200 || headings !== 1)
    expect(wrong.map(({ path, status, headings }) => [path, status, headings])).toEqual([])
    expect(ours).toHaveLength(paths().length)
  })

  it('the Nu HTML checker finds nothing, nor the CSP evaluator above low', { timeout: 300_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'dashboard-'))
    const weak = new Set<string>()
    for (const [n, { text, policy }] of seen.entries()) {
      writeFileSync(join(folder, `${n}.html`), text)
      for (const { severity, directive, description } of new CspEvaluator(new CspParser(policy).csp).evaluate())
        if (severity < Severity.INFO) weak.add(`${directive}: ${description}`)
    }
    const files = seen.map((_, n) => join(folder, `${n}.html`))
    const checked = await promisify(execFile)(
      'java',
      ['-jar', VNU, '--format', 'json', '--exit-zero-always', ...files],
      { maxBuffer: 64 * 1_048_576 },
    )
    rmSync(folder, { recursive: true })
    const { messages } = JSON.parse(checked.stderr) as {
      messages: { url: string; message: string; extract?: string }[]
    }
    const found = messages.map(({ url, message, extract = '' }) => {
      const { path } = seen[Number.parseInt(url.slice(url.lastIndexOf('/') + 1), 10)] ?? { path: url }
      return `${path}: ${message} ${extract}`
    })
    expect({ found, weak: [...weak] }).toEqual({ found: [], weak: [] })
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
    // What links lead to is made by the same code: here they are only read.
    for (const path of [...PATHS, ...ACT_PATHS].map((of) => of(behind.rows))) {
      const status = (await page.goto(behind.root + path))?.status()
      if (status !== 200) faults.push(`${path}: ${status}`)
      for (const link of await linksOf(page))
        if (link.startsWith(behind.origin) && !link.startsWith(`${behind.origin}/tools/`)) strayed.add(link)
    }
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
