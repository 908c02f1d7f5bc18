/** The dashboard in use: by keyboard alone, live, in local time, and against other sites. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeItem, makeWebhook, webhookOf } from '../support/rows.ts'
import { startChromium } from './chromium.ts'
import type { Site, Visit } from './dashboard/site.ts'
import { addressOf, startSite } from './dashboard/site.ts'

let site: Site
let browser: Browser
let visit: Visit
let page: Page

beforeAll(async () => {
  site = await startSite()
  browser = await startChromium()
  visit = await site.visit(browser, 'operate', { timezoneId: 'America/New_York' })
  page = visit.page
})

afterAll(async () => {
  await browser?.close()
  await site?.close()
})

const failedWebhook = () => makeWebhook(site.test, site.rows.healthy, { status: 'failed', attempts: 3 })
const focused = (): Promise<string> =>
  page.evaluate(`(document.activeElement?.textContent?.trim() || document.activeElement?.getAttribute('name')) ?? ''`)

/** By Tab alone, as a person gets there who has no mouse. */
async function tabTo(name: string | RegExp): Promise<void> {
  for (let n = 0; n < 150; n += 1) {
    await page.keyboard.press('Tab')
    const at = await focused()
    if (typeof name === 'string' ? at === name : name.test(at)) return
  }
  throw new Error(`Tab does not lead to ${name}`)
}

describe('by keyboard alone', () => {
  const at = (path: string) => page.goto(`${site.root}${path}?back=/operator/webhooks`)
  const told = () => page.getByRole('status').textContent()

  it.each<[string, () => Promise<string>, () => Promise<void>, RegExp]>([
    [
      'replays a webhook',
      async () => `/do/post/webhooks/${(await failedWebhook()).id}/replay`,
      () => tabTo('Replay: yes'),
      /is run again now/,
    ],
    [
      'dismisses one',
      async () => `/do/post/webhooks/${(await failedWebhook()).id}/dismiss`,
      () => tabTo('Dismiss: yes'),
      /is dismissed/,
    ],
    [
      'retries an item',
      async () => `/do/post/sync-items/${site.rows.item}/retry`,
      () => tabTo('Retry'),
      /is tried again now/,
    ],
    [
      'skips one, after a tick',
      async () => {
        const run = { id: site.rows.run, integrationId: site.rows.failing }
        return `/do/post/sync-items/${(await makeItem(site.test, run, { status: 'failed', attempts: 5 })).id}/skip`
      },
      async () => {
        await tabTo('is_agreed')
        await page.keyboard.press('Space')
        await tabTo('Skip')
      },
      /Skipped sync item/,
    ],
    [
      'starts a sync',
      async () => `/do/post/integrations/${site.rows.healthy}/sync`,
      () => tabTo('Sync now'),
      /is started/,
    ],
    ['pauses syncs', async () => `/do/post/integrations/${site.rows.healthy}/pause`, () => tabTo('Pause'), /./],
    [
      'disables',
      async () => `/do/post/integrations/${site.rows.healthy}/disable`,
      () => tabTo('Disable'),
      /disabled|off/i,
    ],
    ['enables', async () => `/do/post/integrations/${site.rows.healthy}/enable`, () => tabTo('Enable'), /enabled|on/i],
    [
      'overrides a limit',
      async () => `/do/put/integrations/${site.rows.healthy}/rate-limit-override`,
      async () => {
        await tabTo('limit')
        await page.keyboard.type('7')
        await tabTo('window_seconds')
        await page.keyboard.type('60')
        await tabTo('Override limit')
      },
      /7 calls in 60 s/,
    ],
    [
      'deletes an integration, after a tick and its name',
      async () => `/do/delete/integrations/${site.rows.off}`,
      async () => {
        await tabTo('typed_name')
        await page.keyboard.type('Acme handbook')
        await tabTo('is_agreed')
        await page.keyboard.press('Space')
        await tabTo('Delete: yes')
      },
      /^Deleted integration/,
    ],
  ])('%s', async (_, path, fill, says) => {
    await at(await path())
    await fill()
    await page.keyboard.press('Enter')
    await page.waitForURL((url) => !url.pathname.includes('/do/'))
    expect(await told()).toMatch(says)
  })

  it('shows its keys, walks to pages and rows, and finds the search box', async () => {
    await page.goto(`${site.root}/integrations`)
    await page.keyboard.press('?')
    const dialog = page.getByRole('dialog', { name: 'Keys' })
    await dialog.waitFor()
    expect(await dialog.textContent()).toContain('the next and the previous row')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    await page.keyboard.press('g')
    await page.keyboard.press('w')
    await page.waitForURL(`${site.root}/webhooks`)
    await page.keyboard.press('j')
    const first = await focused()
    await page.keyboard.press('j')
    const second = await focused()
    expect(Number(second)).toBeLessThan(Number(first))
    await page.keyboard.press('k')
    expect(await focused()).toBe(first)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${site.root}/webhooks/${first}`)
    await page.goto(`${site.root}/webhooks`)
    await page.keyboard.press('/')
    expect(await focused()).toBe('q')
    await page.keyboard.type('g w')
    expect(new URL(page.url()).pathname).toBe('/operator/webhooks')
  })

  it('leaves single keys alone where its reader has switched them off', async () => {
    await page.keyboard.press('Escape')
    await page.goto(`${site.root}/webhooks`)
    await page.getByRole('button', { name: 'Keys' }).click()
    await page.getByLabel('Single keys are on').uncheck()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.reload()
    await page.keyboard.press('?')
    await page.keyboard.press('j')
    expect(await page.getByRole('dialog').isVisible()).toBe(false)
    expect(await page.evaluate('document.activeElement === document.body')).toBe(true)
    await page.getByRole('button', { name: 'Keys' }).click()
    await page.getByLabel('Single keys are on').check()
  })
})

describe('live', () => {
  const live = (text: string) => page.getByRole('button', { name: text }).waitFor()
  const setHidden = (isHidden: boolean, of = page) =>
    of.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${isHidden} }),
      document.dispatchEvent(new Event('visibilitychange'))`)

  it('changes what differs, and keeps scroll, focus, what is open and what is typed', async () => {
    await page.goto(`${site.root}/webhooks`)
    await live('Live: on')
    await page.getByText('Filter').first().click()
    await page.getByLabel('event').fill('half-typed')
    const row = page.locator('tbody tr').nth(10).locator('a').first()
    const id = await row.textContent()
    await row.focus()
    await page.evaluate('scrollTo(0, 200)')
    const { id: arrived } = await failedWebhook()
    await page.locator(`tbody a[href$="/webhooks/${arrived}"]`).waitFor()
    expect(await focused()).toBe(id)
    expect(await page.getByLabel('event').inputValue()).toBe('half-typed')
    expect(await page.evaluate('scrollY')).toBe(200)
    expect(await page.locator('details[open] form.filters').count()).toBe(1)
  })

  it('keeps a form that is on its way from being sent again', async () => {
    await page.goto(`${site.root}/integrations/${site.rows.healthy}`)
    await live('Live: on')
    // Nothing is sent by an event that a script makes: the form stays on its way.
    const isSent = () =>
      page.evaluate(`document.querySelector('main form[action$="/test"]')
        .dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }))`)
    expect(await isSent()).toBe(true)
    const { id } = await failedWebhook()
    await page.locator(`tbody a[href$="/webhooks/${id}"]`).waitFor()
    expect(await isSent()).toBe(false)
  })

  it('waits while text is selected', async () => {
    await page.goto(`${site.root}/webhooks`)
    await live('Live: on')
    await page.evaluate(`getSelection().selectAllChildren(document.querySelector('tbody tr td'))`)
    const held = page.waitForResponse(() => true, { timeout: 3_000 }).catch(() => null)
    const { id } = await failedWebhook()
    await held
    const row = page.locator(`tbody a[href$="/webhooks/${id}"]`)
    expect(await row.count()).toBe(0)
    await page.evaluate('getSelection().removeAllRanges()')
    await row.waitFor()
  })

  it('keeps the line about an act until the page is left', async () => {
    const webhook = await failedWebhook()
    await page.goto(`${site.root}/do/post/webhooks/${webhook.id}/dismiss?back=/operator/webhooks`)
    await page.getByRole('button', { name: /Dismiss/ }).click()
    await live('Live: on')
    const { id } = await failedWebhook()
    await page.locator(`tbody a[href$="/webhooks/${id}"]`).waitFor()
    expect(await page.getByRole('status').textContent()).toContain('is dismissed')
    await page.reload()
    expect(await page.getByRole('status').count()).toBe(0)
  })

  it('is paused by a key and for later pages, stops in a hidden tab, and goes on', async () => {
    await page.goto(`${site.root}/webhooks`)
    await live('Live: on')
    await page.keyboard.press('.')
    await live('Live: paused')
    await page.goto(`${site.root}/integrations`)
    await live('Live: paused')
    await page.keyboard.press('.')
    await live('Live: on')
    await setHidden(true)
    await live('Live: paused')
    const asked = page.waitForRequest(/\/live\?/)
    await setHidden(false)
    await asked
    await live('Live: on')
  })

  it.each(['looked at', 'hidden'])('leads to the sign-in when its session has ended while it was %s', async (how) => {
    const other = await site.visit(browser, 'operate')
    await other.page.goto(`${site.root}/webhooks`)
    await other.page.getByRole('button', { name: 'Live: on' }).waitFor()
    if (how === 'hidden') await setHidden(true, other.page)
    await other.context.clearCookies()
    const [cookie] = await site.test
      .sql`select key from integration_cache where key like '%session%' order by expires_at desc limit 1`
    await site.test.sql`delete from integration_cache where key = ${cookie?.key}`
    if (how === 'hidden') await setHidden(false, other.page)
    await other.page.waitForURL(/\/login/)
    await other.context.close()
  })
})

it('shows times in UTC or in local time, exact and relative, as its reader has chosen', async () => {
  await page.goto(`${site.root}/incidents`)
  const time = page.locator('tbody time').first()
  const utc = await time.textContent()
  expect(await time.getAttribute('title')).toMatch(/ local$/)
  await page.getByRole('button', { name: 'Times: UTC' }).click()
  const local = await time.textContent()
  expect(Date.parse(`${utc}Z`) - Date.parse(`${local}Z`)).toBeGreaterThanOrEqual(4 * 3_600_000)
  expect(await page.locator('caption').textContent()).toContain('Times are local')
  await page.reload()
  expect(await time.textContent()).toBe(local)
  expect(await page.locator('tbody .ago').first().textContent()).toMatch(/ago$/)
  await page.keyboard.press('u')
  expect(await time.textContent()).toBe(utc)
})

it('copies what is shown once', async () => {
  await visit.context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto(`${site.root}/do/post/tokens`)
  await page.getByLabel('name').fill('copied')
  await page.getByLabel('scope').selectOption('read')
  await page.getByRole('button', { name: 'New token' }).click()
  const token = await page.locator('pre[data-copy]').textContent()
  await page.getByRole('button', { name: /^Copy/ }).click()
  await page.getByText('Copied', { exact: true }).waitFor()
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe(token)
})

it('sends a form once, however often it is clicked', async () => {
  const webhook = await failedWebhook()
  await page.goto(`${site.root}/do/post/webhooks/${webhook.id}/dismiss?back=/operator/webhooks`)
  let sent = 0
  page.on('request', (request) => {
    if (request.method() === 'POST') sent += 1
  })
  await page.getByRole('button', { name: /Dismiss/ }).dblclick()
  await page.waitForURL(`${site.root}/webhooks`)
  expect(sent).toBe(1)
})

it('folds its menu away on a phone, and opens it', async () => {
  const phone = await site.visit(browser, 'read', { viewport: { width: 360, height: 740 } })
  expect(await phone.page.getByRole('link', { name: 'Webhooks' }).isVisible()).toBe(false)
  await phone.page.getByText('Pages').click()
  expect(await phone.page.getByRole('link', { name: 'Webhooks' }).isVisible()).toBe(true)
  await phone.context.close()
})

describe('against another site', () => {
  let foreign: Server
  let content = ''
  let stranger: string

  beforeAll(async () => {
    foreign = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end(content))
    foreign.listen(0, 'localhost')
    await once(foreign, 'listening')
    // `localhost` and 127.0.0.1 are two sites.
    stranger = `http://localhost:${addressOf(foreign)}/`
  })
  afterAll(() => void foreign.close())

  it.each([
    [
      'a form that sends itself',
      (path: string) => `<form method="post" action="${path}"></form><script>document.forms[0].submit()</script>`,
    ],
    [
      'a form of plain text',
      (path: string) =>
        `<form method="post" enctype="text/plain" action="${path}"></form><script>document.forms[0].submit()</script>`,
    ],
    [
      'a fetch with cookies',
      (path: string) =>
        `<script>fetch('${path}', { method: 'POST', mode: 'no-cors', credentials: 'include' }).finally(() => location.hash = 'sent')</script>`,
    ],
    ['an image', (path: string) => `<img src="${path}" onerror="location.hash = 'sent'">`],
  ])('%s changes nothing', async (_, attack) => {
    const webhook = await failedWebhook()
    content = attack(`${site.root}/do/post/webhooks/${webhook.id}/dismiss`)
    await page.goto(stranger)
    await page.waitForURL((url) => url.hash === '#sent' || url.origin === site.origin)
    const row = await webhookOf(site.test, webhook.id)
    expect([row.status, row.dismissedAt]).toEqual(['failed', null])
  })

  it('is not framed by it', async () => {
    content = `<iframe id="frame" src="${site.root}"></iframe>`
    await page.goto(stranger)
    const frame = page.frames().find((one) => one !== page.mainFrame())
    await frame?.waitForLoadState()
    expect([await frame?.locator('#main').count(), frame?.url()]).toEqual([0, 'chrome-error://chromewebdata/'])
  })

  it('gives a name that was pointed at this machine neither a page nor an act', async () => {
    const webhook = await failedWebhook()
    const rebound = `http://rebound.localhost:${new URL(site.origin).port}`
    await page.goto(`${rebound}/operator/webhooks`)
    expect(new URL(page.url()).pathname).toBe('/operator/login')
    const answered = page.waitForResponse((response) => response.request().method() === 'POST')
    await page.evaluate(`(() => {
      const form = document.createElement('form')
      form.method = 'post'
      form.action = '/operator/do/post/webhooks/${webhook.id}/dismiss'
      document.body.append(form)
      form.submit()
    })()`)
    expect((await answered).status()).toBe(401)
    expect((await webhookOf(site.test, webhook.id)).dismissedAt).toBeNull()
  })
})

it('has complained of nothing but what it refused', () => {
  const refused = /frame-ancestors|net::ERR_BLOCKED|403|401/
  // Chromium asks the host's own root for an icon where a refusal is plain text.
  const hostsIcon = ` ${site.origin}/favicon.ico`
  const complaints = visit.complaints.filter((text) => text.startsWith(site.root) && !text.endsWith(hostsIcon))
  expect(complaints.filter((text) => !refused.test(text))).toEqual([])
})
