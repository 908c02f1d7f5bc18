/** `integrations dashboard`: the pages alone, beside no worker and no Temporal. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { userInfo } from 'node:os'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { serveDashboard } from '../../src/bin/serve-dashboard.ts'
import { runProgram } from '../../src/commands/cli/program.ts'
import type { Terminal } from '../../src/commands/cli/terminal.ts'
import { processSources } from '../../src/commands/cli/terminal.ts'
import { markReauthRequired } from '../../src/oauth/reauth.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const OAUTH: HasOAuth2 = {
  authorizationUrl: () => 'https://example.com/authorize',
  exchangeCode: async () => ({}),
  refreshToken: async () => ({}),
  revokeToken: async () => {},
  refreshThreshold: () => 60,
}

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  // Nothing listens at this address: Temporal is away. The base URL is that of the host's own API.
  test = testIntegrations(database.url, {
    recordStarts: false,
    providers: { acme: webhookProvider(), oauth: OAUTH },
    temporal: { address: '127.0.0.1:1' },
    baseUrl: 'https://api.example.com/tools',
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

function started(...words: string[]) {
  const stop = new AbortController()
  let out = ''
  let say: (text: string) => void
  const said = new Promise<string>((resolve) => {
    say = resolve
  })
  const nobody = async (): Promise<never> => {
    throw new Error('nobody is asked')
  }
  const terminal: Terminal = {
    out: (text) => {
      out += text
      say(out)
    },
    err: (text) => say(text),
    isInteractive: false,
    columns: () => 80,
    prompts: { text: nobody, password: nobody, confirm: nobody },
    sources: processSources(async () => ''),
  }
  const ended = runProgram(['dashboard', ...words], {
    load: async () => Object.assign(Object.create(test.integrations), { close: async () => {} }),
    terminal,
    signal: stop.signal,
    serve: serveDashboard,
  })
  return { said, stop, ended, out: () => out }
}
const addressIn = (text: string): string => /in: (\S+)/.exec(text)?.[1] ?? ''

it('prints an address that signs in, shows and acts by a name of its own, and revokes its token at its end', async () => {
  const { id } = await makeIntegration(test, 'acme', { name: 'Shown alone' })
  const { said, stop, ended, out } = started('--port', '0')
  const login = addressIn(await said)
  expect(login).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/operator\/login\?token=/)
  const { origin } = new URL(login)
  const entered = await fetch(login, { redirect: 'manual' })
  expect([entered.status, entered.headers.get('location')]).toEqual([303, '/operator'])
  const cookie = entered.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const page = await (
    await fetch(`${origin}/operator/integrations`, { headers: { cookie, accept: 'text/html' } })
  ).text()
  expect(page).toContain('Shown alone')
  const csrf = /name="csrf_token" value="([^"]+)"/.exec(page)?.[1] ?? ''
  const act = await fetch(`${origin}/operator/do/post/integrations/${id}/disable`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie, origin, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ csrf_token: csrf }).toString(),
  })
  expect(act.status).toBe(303)
  expect((await test.integrations.get(id)).isActive).toBe(false)
  // As through a tunnel or a published port: the browser knows it by another name than the printed one.
  const elsewhere = origin.replace('127.0.0.1', 'localhost')
  const enable = (from: string) =>
    fetch(`${elsewhere}/operator/do/post/integrations/${id}/enable`, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie, origin: from, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ csrf_token: csrf }).toString(),
    })
  expect((await enable(origin)).status).toBe(403)
  expect((await test.integrations.get(id)).isActive).toBe(false)
  // Behind a tunnel that ends TLS.
  const secure = (from: string): string => from.replace('http:', 'https:')
  expect((await enable(secure(origin))).status).toBe(403)
  expect((await enable(secure(elsewhere))).status).toBe(303)
  expect((await enable(elsewhere)).status).toBe(303)
  expect((await test.integrations.get(id)).isActive).toBe(true)
  for await (const { by } of test.integrations.admin.audit.list({ limit: 1 }))
    expect(by).toMatch(new RegExp(`^cli-${userInfo().username}-[0-9a-f]{6}$`))
  const unknown = await fetch(`${origin}/operator/integrations`, {
    headers: { accept: 'text/html' },
    redirect: 'manual',
  })
  expect(unknown.status).toBe(302)
  const live = await fetch(`${origin}/operator/live?page=/integrations`, { headers: { cookie } })
  expect(live.headers.get('content-type')).toContain('text/event-stream')
  stop.abort()
  expect(await ended).toBe(0)
  await live.text().catch(() => '')
  expect(out()).toContain('its token is revoked')
  for await (const { state } of test.integrations.admin.tokens.list({ limit: 1 })) expect(state).toBe('revoked')
  await expect(fetch(login)).rejects.toThrow()
})

it('has no link to a page that it does not serve: an authorization begins by a link of the host', async () => {
  const { id } = await makeIntegration(test, 'oauth')
  const lost = await makeIntegration(test, 'oauth')
  await markReauthRequired(test.framework, lost, 'invalid_grant')
  const { said, stop, ended } = started('--port', '0')
  const login = addressIn(await said)
  const { origin } = new URL(login)
  const entered = await fetch(login, { redirect: 'manual' })
  const cookie = entered.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  for (const path of ['', `/${id}`, `/${lost.id}`]) {
    const address = `${origin}/operator/integrations${path}`
    const page = await (await fetch(address, { headers: { cookie, accept: 'text/html' } })).text()
    expect(page).not.toContain('/oauth/connect')
    if (path !== '') expect(page).toContain(`/operator/do/post/integrations${path}/oauth/link`)
    if (path !== `/${id}`) expect(page).toContain('authorization is needed again')
  }
  stop.abort()
  expect(await ended).toBe(0)
})

it('says what is wrong where it can not listen, and revokes its token', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  const { said, ended } = started('--port', String(port))
  expect(await said).toContain(`The dashboard can't listen on 127.0.0.1:${port}`)
  expect(await ended).toBe(1)
  for await (const { state } of test.integrations.admin.tokens.list({ limit: 1 })) expect(state).toBe('revoked')
  taken.close()
})
