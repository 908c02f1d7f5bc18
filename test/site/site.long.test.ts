/** The built site: made without a network, each link leads somewhere, and axe finds nothing, by day and by night. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LinkChecker, LinkState } from 'linkinator'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../dev/local-process.ts'
import { siteFolders } from '../../scripts/site/folders.ts'
import { writeReference } from '../../scripts/site/reference.ts'
import { serveSite } from '../../scripts/site/serve.ts'
import { referenceVersions } from '../../scripts/site/versions.ts'
import { startChromium } from '../e2e/chromium.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const BUILD_SECONDS = 900
/** Of each folder of the reference, which are made alike by the hundred. */
const PAGES_OF_A_KIND = 3

const root = fileURLToPath(new URL('../..', import.meta.url))
const { dist } = siteFolders(root)
let site: Awaited<ReturnType<typeof serveSite>>
let browser: Browser
let paths: string[]

beforeAll(async () => {
  const { code, output } = await run('npm', ['run', 'site'], {
    cwd: root,
    seconds: BUILD_SECONDS,
    env: { ...process.env, NODE_OPTIONS: `--require ${fileURLToPath(new URL('offline.cjs', import.meta.url))}` },
  })
  expect({ code, output }).toEqual({ code: 0, output: expect.stringMatching(/\d+ pages in \d+ s/) })
  paths = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.html'))
  site = await serveSite(dist, '/', 0)
  browser = await startChromium()
}, BUILD_SECONDS * 1000)

afterAll(async () => {
  await browser?.close()
  site?.server.close()
})

it('has a page for each page of the documentation, and for each entry of the package', () => {
  const docs = execFileSync('git', ['ls-files', '-co', '--exclude-standard', 'docs/*.md'], {
    cwd: root,
    encoding: 'utf8',
  })
  const wanted = docs
    .trim()
    .split('\n')
    .map((path) => path.replace(/[.]md$/, '.html'))
  expect(wanted.filter((path) => !paths.includes(path))).toEqual([])
  const entries = paths.filter((path) => /^reference\/next\/durable-integrations\/([a-z]+\/)?index[.]html$/.test(path))
  expect(entries).toHaveLength(8)
  const words = readFileSync(
    join(dist, 'reference/next/durable-integrations/functions/createIntegrations.html'),
    'utf8',
  )
  expect(words).toContain('createIntegrations')
})

it('each link leads to a page and a heading of it, each page is reached, and an address elsewhere is one', {
  timeout: 600_000,
}, async () => {
  const { links } = await new LinkChecker().check({
    path: site.url,
    recurse: true,
    checkFragments: true,
    // They are served by this process, beside the checker.
    concurrency: 8,
    linksToSkip: async (link) => !link.startsWith(site.url),
  })
  const wrong = links.filter(({ state }) => state === LinkState.BROKEN)
  expect(wrong.map(({ url, parent, status }) => `${parent}: ${url} (${status})`)).toEqual([])
  const reached = new Set(links.map(({ url }) => url.slice(site.url.length).replace(/#.*/, '')))
  const isReached = (path: string) => reached.has(path) || reached.has(path.replace(/(^|\/)index[.]html$/, '$1'))
  expect(paths.filter((path) => !isReached(path))).toEqual(['404.html'])
  const elsewhere = new Set(links.filter(({ state }) => state === LinkState.SKIPPED).map(({ url }) => url))
  expect([...elsewhere].filter((url) => !/^(https?|mailto):/.test(url) || !URL.canParse(url))).toEqual([])
  console.log(`${links.length} links of ${paths.length} pages are right; ${elsewhere.size} addresses lead elsewhere`)
})

describe.each(['light', 'dark'] as const)('in the %s', (colorScheme) => {
  it('axe finds nothing, and nothing is asked of another server', { timeout: 1_800_000 }, async () => {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1_280, height: 900 } })
    const page = await context.newPage()
    const faults: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(site.url) && !request.url().startsWith('data:'))
        faults.push(`asked: ${request.url()}`)
    })
    page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`))
    const looked = sample(paths)
    for (const path of looked) {
      await page.goto(site.url + path, { waitUntil: 'load' })
      // The switch of the two has its name once the page's script has run.
      await page.waitForFunction(
        `document.documentElement.classList.contains('dark') === ${colorScheme === 'dark'} &&
          document.querySelector('.VPSwitchAppearance')?.title`,
      )
      faults.push(...(await axe(page)).map((fault) => `${path}: ${fault}`))
    }
    await context.close()
    console.log(`axe looked at ${looked.length} pages in the ${colorScheme}`)
    expect(faults).toEqual([])
  })
})

it('the search finds a word of a page, and the page of it', { timeout: 60_000 }, async () => {
  const page = await browser.newPage()
  await page.goto(`${site.url}docs/glossary.html`)
  await page.getByRole('button', { name: 'Search' }).first().click()
  await page.getByRole('searchbox').fill('transaction-mode pooler')
  const results = page.locator('.result')
  await results.first().waitFor()
  expect(await results.first().textContent()).toContain('Poolers')
  await page.close()
})

it('a released version has a reference of its own, which is made once', { timeout: 300_000 }, async () => {
  const clone = await mkdtemp(join(tmpdir(), 'site-release-'))
  execFileSync('git', ['clone', '--quiet', '--depth', '1', `file://${root}`, clone])
  execFileSync('git', ['tag', 'v0.0.9'], { cwd: clone })
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'))
  const release = referenceVersions(clone).find(({ tag }) => tag === 'v0.0.9')
  if (release === undefined) throw new Error('The tag is not found')
  const pages = join(clone, '.data', 'pages')
  await writeReference(clone, pages, release)
  const made = join(pages, 'reference/0.0.9/durable-integrations/index.md')
  expect(readFileSync(made, 'utf8')).toMatch(/^---\nsearch: false\n---\n/)
  const kept = join(siteFolders(clone).references, 'v0.0.9')
  const { mtimeMs } = statSync(kept)
  rmSync(pages, { recursive: true })
  await writeReference(clone, pages, release)
  expect(statSync(kept).mtimeMs).toBe(mtimeMs)
  expect(readFileSync(made, 'utf8')).toContain('createIntegrations')
  rmSync(clone, { recursive: true })
})

/** All pages but those of the reference, of which each folder gives a few. */
function sample(all: readonly string[]): string[] {
  const taken = new Map<string, number>()
  return all.filter((path) => {
    if (!path.startsWith('reference/')) return true
    const folder = posix.dirname(path)
    taken.set(folder, (taken.get(folder) ?? 0) + 1)
    return (taken.get(folder) ?? 0) <= PAGES_OF_A_KIND
  })
}

async function axe(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  return page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => id + ': ' + html.slice(0, 150) + ' ' + failureSummary)))`)
}
