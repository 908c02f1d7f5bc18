/** A person connects an integration in a real browser, at an authorization server of its own; then it works, and ends. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import type { Hono } from 'hono'
import { OAuth2Server } from 'oauth2-mock-server'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { Ran } from '../commands/cli/run.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { startChromium } from './chromium.ts'
import type { ConsentPage } from './consent-page.ts'
import { startConsentPage } from './consent-page.ts'
import { AcmeProvider, CLIENT_SECRET } from './oauth-provider.ts'

/** With what a query, a header or a page must escape. */
const CLIENT_ID = 'our app & yours'

interface TokenRequest {
  readonly grantType: string
  readonly refreshToken: string | undefined
}

const issuer = new OAuth2Server()
/** Requests that the authorization server got since the test began. */
let tokenRequests: TokenRequest[]
let revocations: number
/** Seconds that the next tokens are good for. */
let expiresIn: number
/** What the next request for tokens is refused with. */
let refusal: string | null
/** Tokens and codes that it has made: they are nobody's to read. */
const secrets = new Set<string>([CLIENT_SECRET])

let database: TestDatabase
let test: TestIntegrations
let server: Server
let api: Hono
let baseUrl: string
let consent: ConsentPage
let browser: Browser
let offsetMs = 0
let installed = 0

beforeAll(async () => {
  database = await createTestDatabase()
  await issuer.issuer.keys.generate('ES256')
  await issuer.start(0, '127.0.0.1')
  const issuerUrl = String(issuer.issuer.url)
  issuer.service.on('beforeResponse', (answer, request) => {
    tokenRequests.push({ grantType: request.body.grant_type, refreshToken: String(request.body.refresh_token) })
    if (request.body.code !== undefined) secrets.add(request.body.code)
    if (refusal !== null) {
      answer.statusCode = 400
      answer.body = { error: refusal, error_description: `not with ${CLIENT_SECRET}` }
      return
    }
    const body = answer.body as Record<string, unknown>
    body.expires_in = expiresIn
    for (const key of ['access_token', 'refresh_token']) secrets.add(String(body[key]))
  })
  issuer.service.on('beforeRevoke', () => {
    revocations++
  })
  consent = await startConsentPage(`${issuerUrl}/authorize`)
  server = serve({ fetch: (request, env) => api.fetch(request, env), port: 0, hostname: '127.0.0.1' }) as Server
  await once(server, 'listening')
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  test = testIntegrations(database.url, {
    baseUrl,
    providers: { acme: new AcmeProvider({ issuer: issuerUrl, authorizationEndpoint: consent.url }) },
    egress: { allow: ['127.0.0.1'] },
    clock: { now: () => new Date(Date.now() + offsetMs) },
  })
  api = createApi(test.integrations)
  browser = await startChromium()
})

afterAll(async () => {
  await browser?.close()
  server?.closeAllConnections()
  server?.close()
  await consent?.close()
  await issuer.stop()
  await test?.close()
  await database?.drop()
})

let context: BrowserContext
let page: Page
/** What the browser complains of, such as a style that the policy forbids. */
let complaints: string[]
/** Each origin that the browser asked for anything. */
let origins: Set<string>
/** Where the provider led the browser back to. */
let callbacks: string[]

beforeEach(async () => {
  tokenRequests = []
  revocations = 0
  expiresIn = 3_600
  refusal = null
  offsetMs = 0
  await openBrowser()
})

async function openBrowser(): Promise<void> {
  complaints = []
  origins = new Set()
  callbacks = []
  context = await browser.newContext()
  page = await context.newPage()
  page.on('console', (message) => {
    // A page of ours with a status of its own is told there as well; that is no complaint about the page.
    if (!message.text().startsWith('Failed to load resource: the server responded')) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('request', (request) => {
    origins.add(new URL(request.url()).origin)
    if (new URL(request.url()).pathname.endsWith('/oauth/callback')) callbacks.push(request.url())
  })
}

afterEach(async () => {
  expect(complaints).toEqual([])
  const known = [baseUrl, String(issuer.issuer.url), new URL(consent.url).origin]
  expect([...origins].filter((origin) => !known.includes(origin))).toEqual([])
  await context.close()
  const said = JSON.stringify(test.lines)
  const rows = JSON.stringify([
    await test.sql`select * from integration_requests`,
    await test.sql`select * from integration_logs`,
    await test.sql`select key, value from integration_cache`,
  ])
  for (const secret of secrets) expect([said.includes(secret), rows.includes(secret)]).toEqual([false, false])
})

async function run(...words: readonly string[]): Promise<Ran> {
  const ran = await runCommand(test.integrations, words)
  expect(ran.err).toBe('')
  for (const secret of secrets) expect(ran.out).not.toContain(secret)
  return ran
}

/** What `install` prints: the integration, and the link for a person. */
async function install(name = 'Sales & <b>Support</b>'): Promise<{ id: number; link: string }> {
  vi.stubEnv('ACME_ID', CLIENT_ID)
  vi.stubEnv('ACME_SECRET', CLIENT_SECRET)
  const credentials = ['--credential', 'client_id=env:ACME_ID', '--credential', 'client_secret=env:ACME_SECRET']
  installed++
  const ran = await run('install', 'acme', '--name', `${name} ${installed}`, ...credentials)
  expect(ran.exitCode).toBe(0)
  const [, id = ''] = /^Installed integration (\d+)/.exec(ran.out) ?? []
  const [, link = ''] = /^ {2}(http:\S+)$/m.exec(ran.out) ?? []
  return { id: Number(id), link }
}

const heading = (): Promise<string | null> => page.locator('h1').textContent()

async function shown(): Promise<string> {
  const text = (await page.locator('body').textContent()) ?? ''
  for (const secret of secrets) expect(text).not.toContain(secret)
  return text
}

async function follow(name: string, role: 'link' | 'button' = 'link'): Promise<void> {
  // Awaited from before the click: the page that is left is loaded, too.
  const loaded = page.waitForEvent('load')
  await page.getByRole(role, { name, exact: true }).click()
  await loaded
}

/** From the connect page to the provider's own. */
async function leadOn(): Promise<void> {
  expect(await heading()).toBe('Connect Acme CRM')
  await follow('Continue to Acme CRM')
  expect(await heading()).toBe('Acme CRM asks')
}

const credentialsOf = async (id: number) => (await test.integrations.get(id)).credentialsArray()

describe('connecting an integration', () => {
  it('goes from the printed link over the provider to tokens that are used, refreshed and revoked', async () => {
    const { id, link } = await install()
    await page.goto(link)
    expect(await shown()).toContain('for “Sales & <b>Support</b> 1”')
    await leadOn()
    await follow('Allow')
    expect([await heading(), page.url()]).toEqual(['Connected', `${baseUrl}/integrations`])
    expect(await context.cookies()).toEqual([])
    expect(tokenRequests.map(({ grantType }) => grantType)).toEqual(['authorization_code'])
    const first = await credentialsOf(id)
    expect(secrets).toContain(first.access_token)
    expect((await run('oauth-status', String(id), '--json')).json()).toMatchObject({
      connected: true,
      has_refresh_token: true,
      reauth_required: false,
    })

    const soon = new Date(Date.now() + 60_000).toISOString()
    await (await test.integrations.get(id)).updateCredentials({ token_expires_at: soon })
    const token = await (await test.integrations.get(id)).getAccessToken()
    expect(tokenRequests.slice(1)).toEqual([{ grantType: 'refresh_token', refreshToken: first.refresh_token }])
    const second = await credentialsOf(id)
    expect(second.access_token).toBe(token)
    expect([second.refresh_token === first.refresh_token, token === first.access_token]).toEqual([false, false])
    expect(await (await test.integrations.get(id)).getAccessToken()).toBe(token)
    expect(tokenRequests).toHaveLength(2)

    // What install said comes next.
    expect(await run('test', String(id))).toMatchObject({ exitCode: 0 })
    expect(await run('enable', String(id))).toMatchObject({ exitCode: 0 })
    expect((await test.integrations.get(id)).isActive).toBe(true)

    expect((await run('revoke-oauth', String(id), '--yes', '--json')).json()).toMatchObject({ revoked: true })
    expect(revocations).toBeGreaterThan(0)
    expect(await (await test.integrations.get(id)).getAccessToken()).toBeNull()
    expect(Object.keys(await credentialsOf(id)).sort()).toEqual(['client_id', 'client_secret'])
  })

  it('tells somebody who denied so in words, and lets them try again', async () => {
    const { id, link } = await install()
    await page.goto(link)
    await leadOn()
    await follow('Deny')
    expect(await heading()).toBe('Access was not given')
    const text = await shown()
    expect(text).toContain('Nothing was stored, and nothing has changed.')
    // Of the provider's own words only the error code.
    expect(text).toContain('access_denied')
    expect(text).not.toContain('resource owner')
    expect([tokenRequests, await credentialsOf(id)]).toEqual([
      [],
      { client_id: CLIENT_ID, client_secret: CLIENT_SECRET },
    ])
    await follow('Try again')
    await leadOn()
    await follow('Allow')
    expect(await heading()).toBe('Connected')
    expect(await credentialsOf(id)).toHaveProperty('access_token')
  })

  it('tells somebody whose link is over to ask for a new one, and begins nothing', async () => {
    const { id, link } = await install()
    offsetMs = 3_600_000
    const response = await page.goto(link)
    expect(response?.status()).toBe(401)
    expect(await heading()).toBe('This link does not work any more')
    expect(await shown()).toContain('ask the person who sent you here for a new link')
    expect(await page.locator('a').count()).toBe(0)
    const link2 = (await run('oauth-link', String(id), '--json')).json() as { connect_url: string }
    await page.goto(link2.connect_url)
    expect(await heading()).toBe('Connect Acme CRM')
  })

  it('is no longer led on by a page whose link is over since it was opened', async () => {
    const { link } = await install()
    await page.goto(link)
    offsetMs = 3_600_000
    await follow('Continue to Acme CRM')
    expect(await heading()).toBe('This link does not work any more')
  })

  it('takes an answer once: the same address again is told so, and changes nothing', async () => {
    const { id, link } = await install()
    await page.goto(link)
    await leadOn()
    await follow('Allow')
    expect(await heading()).toBe('Connected')
    const before = await credentialsOf(id)
    await page.goto(callbacks[0] ?? '')
    expect(await heading()).toBe('This attempt cannot be finished')
    expect(await shown()).toContain('If you were told before that it is connected, it still is.')
    expect(await credentialsOf(id)).toEqual(before)
    expect(tokenRequests).toHaveLength(1)
  })

  it('takes no answer in another browser than the one that began', async () => {
    const { id, link } = await install()
    await page.goto(link)
    await leadOn()
    const allow = (await page.getByRole('link', { name: 'Allow' }).getAttribute('href')) ?? ''
    await context.close()
    await openBrowser()
    await page.goto(allow)
    expect(await heading()).toBe('This attempt cannot be finished')
    expect(await page.getByText('Try again').count()).toBe(0)
    expect([tokenRequests, await credentialsOf(id)]).toEqual([
      [],
      { client_id: CLIENT_ID, client_secret: CLIENT_SECRET },
    ])
  })

  it('says when the provider refuses the last step, and lets somebody try again', async () => {
    const { id, link } = await install()
    await page.goto(link)
    await leadOn()
    refusal = 'invalid_client'
    await follow('Allow')
    expect(await heading()).toBe('The last step did not work')
    expect(await shown()).toContain('code_exchange_failed')
    expect(await credentialsOf(id)).not.toHaveProperty('access_token')
    refusal = null
    await follow('Try again')
    await leadOn()
    await follow('Allow')
    expect(await heading()).toBe('Connected')
  })

  it('is ended by whoever has a signed link, which is the proof, from wherever it is opened', async () => {
    const { id, link } = await install()
    await page.goto(link)
    await leadOn()
    await follow('Allow')
    await page.goto(consent.foreignForm(await test.integrations.oauth.link(id, { action: 'revoke' })))
    await follow('Win', 'button')
    expect(await heading()).toBe('Disconnected')
    expect([revocations, 'access_token' in (await credentialsOf(id))]).toEqual([1, false])
  })
})
