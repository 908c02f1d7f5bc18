/** A person signs in to the pages in a real browser, at an OpenID provider on another site, and signs out. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import type { Hono } from 'hono'
import { OAuth2Server } from 'oauth2-mock-server'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { startChromium } from './chromium.ts'

const provider = new OAuth2Server()
let database: TestDatabase
let test: TestIntegrations
let server: Server
let api: Hono
let baseUrl: string
let browser: Browser

beforeAll(async () => {
  database = await createTestDatabase()
  await provider.issuer.keys.generate('RS256')
  // `localhost` and `127.0.0.1` are two sites: a Strict cookie stays at home on the way from one to the other.
  await provider.start(0, 'localhost')
  provider.service.on('beforeTokenSigning', ({ payload }) => {
    Object.assign(payload, { email: 'ada@example.com', email_verified: true })
  })
  server = serve({ fetch: (request, env) => api.fetch(request, env), port: 0, hostname: '127.0.0.1' }) as Server
  await once(server, 'listening')
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const oidc = { issuer: String(provider.issuer.url), client_id: 'us', read: ['@example.com'] }
  test = testIntegrations(database.url, { baseUrl, config: { operator: { oidc } } })
  api = createApi(test.integrations)
  browser = await startChromium()
})

afterAll(async () => {
  await browser?.close()
  server?.closeAllConnections()
  server?.close()
  await provider.stop()
  await test?.close()
  await database?.drop()
})

it('leads from the page that was asked for to the provider, back to that page, and out again', async () => {
  const page = await (await browser.newContext()).newPage()
  const complaints: string[] = []
  page.on('console', (message) => complaints.push(message.text()))
  await page.goto(`${baseUrl}/operator/incidents?status=open`)
  await page.getByRole('link', { name: /^Sign in with localhost/ }).click()
  await page.waitForURL(`${baseUrl}/operator/incidents?status=open`)
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Incidents')
  expect(await page.locator('header').textContent()).toContain('ada@example.com')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForURL(`${baseUrl}/operator/login`)
  await page.goto(`${baseUrl}/operator`)
  expect(new URL(page.url()).pathname).toBe('/operator/login')
  expect(complaints).toEqual([])
})
