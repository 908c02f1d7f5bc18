/** The dashboard as a person reaches it: a real server with rows, and real browsers that are signed in. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { request as httpRequest } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { GitHubProvider } from '../../../src/adapters/github/index.ts'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import { createApi } from '../../../src/api/app.ts'
import { freePort } from '../../../src/bin/free-port.ts'
import { makeCertificates } from '../../support/certificates.ts'
import type { DashboardRows } from '../../support/dashboard-rows.ts'
import { fillDashboard } from '../../support/dashboard-rows.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { OPERATE_TOKEN, READ_TOKEN, TOKENS } from '../../support/operators.ts'
import { reachableTemporal } from '../../support/reachable-temporal.ts'

export interface Site {
  readonly test: TestIntegrations
  readonly rows: DashboardRows
  /** Of the browser's address: scheme and host. */
  readonly origin: string
  /** Of the dashboard: `https://localhost:4711/tools/operator`. */
  readonly root: string
  /** A context that is signed in, and a page of it. */
  visit(browser: Browser, as: 'operate' | 'read', options?: BrowserContextOptions): Promise<Visit>
  close(): Promise<void>
}

export interface Visit {
  readonly context: BrowserContext
  readonly page: Page
  /** What a page's code or the browser complained of: errors, refused scripts, failed requests. */
  readonly complaints: string[]
}

/** @param behind the proxy that takes TLS off, and this path before the service's own */
export async function startSite({
  behind,
  isHostile,
  adminUrl,
}: {
  readonly behind?: { readonly prefix: string }
  readonly isHostile?: boolean
  /** Of the Postgres; default: the test run's. */
  readonly adminUrl?: string
} = {}): Promise<Site> {
  const database = await createTestDatabase(adminUrl === undefined ? {} : { adminUrl })
  const port = await freePort()
  const outer = behind === undefined ? port : await freePort()
  const origin = behind === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${outer}`
  const base = `${origin}${behind?.prefix ?? ''}`
  const test = testIntegrations(database.url, {
    providers: { github: new GitHubProvider(), stripe: new StripeProvider() },
    baseUrl: base,
    config: { operator: { tokens: [...TOKENS] } },
  })
  const temporal = { ...reachableTemporal(), isInboxRunning: async () => true, isOutboxRunning: async () => true }
  Object.assign(test.framework, { temporal })
  const rows = await fillDashboard(test, isHostile === undefined ? {} : { isHostile })
  const stopping = new AbortController()
  const api = createApi(test.integrations, { signal: stopping.signal })
  const server = serve({ fetch: api.fetch, port, hostname: '127.0.0.1' }) as Server
  await once(server, 'listening')
  const proxy = behind === undefined ? null : await startProxy({ port: outer, to: port, prefix: behind.prefix })
  return {
    test,
    rows,
    origin,
    root: `${base}/operator`,
    visit: (browser, as, options) => signIn(browser, base, as, options),
    async close() {
      stopping.abort()
      server.closeAllConnections()
      server.close()
      proxy?.closeAllConnections()
      proxy?.close()
      await test.close()
      await database.drop()
    },
  }
}

/** @param base what the dashboard's `/operator` stands behind */
export async function signIn(
  browser: Browser,
  base: string,
  as: 'operate' | 'read',
  options: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()))
      complaints.push(`${page.url()}: ${message.text()} ${message.location().url}`)
  })
  page.on('pageerror', (error) => complaints.push(`${page.url()}: ${error.message}`))
  page.on('dialog', (dialog) => {
    complaints.push(`${page.url()}: a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  await page.goto(`${base}/operator/login`)
  await page.getByLabel('Operator token').fill(as === 'operate' ? OPERATE_TOKEN : READ_TOKEN)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(`${base}/operator`)
  return { context, page, complaints }
}

/** As nginx with `location /tools/ { proxy_pass http://…/; }`. */
async function startProxy({ port, to, prefix }: { port: number; to: number; prefix: string }): Promise<Server> {
  const { server: own } = makeCertificates('localhost')
  const server = createTlsServer(
    { cert: readFileSync(own.certificate), key: readFileSync(own.key) },
    (incoming, outgoing) => {
      const { url = '/', method, headers } = incoming
      if (url !== prefix && !url.startsWith(`${prefix}/`)) return void outgoing.writeHead(404).end()
      const path = url.slice(prefix.length) || '/'
      const inner = httpRequest({ host: '127.0.0.1', port: to, path, method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(outgoing)
      })
      inner.on('error', () => outgoing.destroy())
      outgoing.on('close', () => inner.destroy())
      incoming.pipe(inner)
    },
  )
  server.listen(port, 'localhost')
  await once(server, 'listening')
  return server
}

export const addressOf = (server: Server): number => (server.address() as AddressInfo).port
