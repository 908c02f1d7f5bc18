/** install, oauth-link, oauth-status, refresh-tokens and revoke-oauth of a provider that a person connects. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import type { RefreshTokensInput } from '../../src/oauth/oauth-jobs.ts'
import { markReauthRequired } from '../../src/oauth/reauth.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { allIntegrations } from '../support/rows.ts'
import type { Ran, RunOptions } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const BASE_URL = 'https://api.example.com'
const SECRET = 'client-secret-of-the-tests'
const ACCESS = 'access-token-of-the-tests'
const REFRESH = 'refresh-token-of-the-tests'
const KEYS = encryptionKey('cli')

let database: TestDatabase
let test: TestIntegrations
/** Access tokens that the health check was asked with. */
let checked: unknown[]
let revoke: () => Promise<void>

const oauth: HasOAuth2 = {
  label: 'Acme CRM',
  credentialsSchema: z.object({
    client_id: z.string(),
    client_secret: z.string(),
    access_token: z.string().optional(),
    refresh_token: z.string().optional(),
    token_expires_at: z.string().optional(),
  }),
  authorizationUrl: (_, redirectUri, state) => `https://acme.example/authorize?${redirectUri}&${state}`,
  exchangeCode: async () => ({ access_token: ACCESS }),
  refreshToken: async () => ({ access_token: ACCESS }),
  revokeToken: () => revoke(),
  refreshThreshold: () => 60,
}
const withCheck = {
  ...oauth,
  async healthCheck(integration: Integration) {
    checked.push(integration.credentialsArray().access_token)
    return true
  },
}
const greedy = { ...oauth, credentialsSchema: z.object({ client_id: z.string(), access_token: z.string() }) }
/** A key or OAuth. */
const either = {
  ...withCheck,
  label: 'Either',
  credentialsSchema: z.looseObject({ api_key: z.string().optional() }),
  needsAuthorization: (integration: Integration) => !('api_key' in integration.credentialsArray()),
}
/** Its tokens are obtained without a person. */
const machine = { ...withCheck, label: 'Machine', obtainsTokens: () => true }
const providers = { acme: withCheck, unchecked: oauth, greedy, either, machine, bare: {} }

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers, baseUrl: BASE_URL, encryptionKeys: KEYS })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  checked = []
  revoke = async () => {}
  vi.stubEnv('ACME_SECRET', SECRET)
  vi.stubEnv('ACME_TOKEN', ACCESS)
  for (const integration of await allIntegrations(test)) await test.integrations.delete(integration.id, { force: true })
})

async function run(words: readonly string[], options: RunOptions = {}, on = test): Promise<Ran> {
  const ran = await runCommand(on.integrations, words, options)
  for (const secret of [SECRET, ACCESS, REFRESH]) expect(ran.out + ran.err).not.toContain(secret)
  return ran
}

const CLIENT = ['--credential', 'client_id=app', '--credential', 'client_secret=env:ACME_SECRET']

async function connected(credentials: Record<string, unknown> = { access_token: ACCESS, refresh_token: REFRESH }) {
  const { id } = await test.integrations.create({
    provider: 'acme',
    name: 'Ours',
    credentials: { client_id: 'app', client_secret: SECRET, ...credentials },
  })
  return id
}

function expectConnectLink(link: string, id: number, seconds: number): void {
  const url = new URL(link)
  const path = `/integrations/${id}/oauth/connect`
  expect([url.origin, url.pathname]).toEqual([BASE_URL, path])
  expect(test.integrations.admin.access.isLinkValid({ method: 'GET', path }, url.searchParams)).toBe(true)
  const secondsLeft = Number(url.searchParams.get('expires')) - Date.now() / 1_000
  expect(secondsLeft).toBeGreaterThan(seconds - 60)
  expect(secondsLeft).toBeLessThanOrEqual(seconds)
}

describe('install', () => {
  it('leaves it switched off and unchecked, and prints the link and what comes after it', async () => {
    const { exitCode, out } = await run(['install', 'acme', '--name', 'Ours', ...CLIENT])
    expect(exitCode).toBe(0)
    const [made] = await allIntegrations(test)
    expect(made).toMatchObject({ name: 'Ours', isActive: false })
    expect(checked).toEqual([])
    const [link = ''] = /^ {2}https:\S+$/m.exec(out) ?? []
    expectConnectLink(link.trim(), made?.id ?? 0, 3_600)
    expect(out).toContain('give access at Acme CRM. It opens for anyone who has it, until 20')
    for (const command of ['test', 'enable', 'oauth-link'])
      expect(out).toMatch(new RegExp(`^  integrations ${command} ${made?.id} `, 'm'))
  })

  it('has the link in the document of --json', async () => {
    const ran = await run(['install', 'acme', ...CLIENT, '--json'])
    const [made] = await allIntegrations(test)
    const document = ran.json() as { connect_url: string; expires_at: string }
    expect(document).toEqual({
      id: made?.id,
      name: 'Acme CRM',
      provider: 'acme',
      created: true,
      check: null,
      webhook_address: null,
      connect_url: expect.any(String),
      expires_at: expect.any(String),
    })
    expectConnectLink(document.connect_url, made?.id ?? 0, 3_600)
    const expires = Number(new URL(document.connect_url).searchParams.get('expires'))
    expect(document.expires_at).toBe(new Date(expires * 1_000).toISOString())
  })

  it('asks a person for no token', async () => {
    const asked: string[] = []
    const { exitCode } = await run(['install', 'acme'], {
      answers: { 'Name of': 'Ours', client_id: 'app', client_secret: SECRET },
      asked,
    })
    expect({ exitCode, asked }).toEqual({
      exitCode: 0,
      asked: ['Name of the integration', 'client_id', 'client_secret'],
    })
  })

  it('does not name a health check that the provider has not', async () => {
    const { out } = await run(['install', 'unchecked', ...CLIENT])
    expect(out).toContain('integrations enable ')
    expect(out).not.toContain('integrations test ')
  })

  it('with --skip-check switches it on at once', async () => {
    const { out } = await run(['install', 'acme', ...CLIENT, '--skip-check'])
    expect((await allIntegrations(test)).map(({ isActive }) => isActive)).toEqual([true])
    expect(out).toContain('/oauth/connect?')
    expect(out).not.toContain('integrations enable ')
  })

  it('checks an access token that is given, and prints no link then', async () => {
    const ran = await run(['install', 'acme', ...CLIENT, '--credential', 'access_token=env:ACME_TOKEN', '--json'])
    expect(ran.json()).toMatchObject({ check: { ok: true }, connect_url: null, expires_at: null })
    expect(checked).toEqual([ACCESS])
    expect((await allIntegrations(test)).map(({ isActive }) => isActive)).toEqual([true])
  })

  it.each<[string, string[], boolean]>([
    ['checks one with a key, and asks no person', [], true],
    ['with --skip-check switches one with a key on, and asks no person', ['--skip-check'], false],
  ])('%s, with or without a base URL', async (_, words, isChecked) => {
    const homeless = testIntegrations(database.url, { providers, encryptionKeys: KEYS })
    for (const on of [test, homeless]) {
      const name = on === test ? 'here' : 'homeless'
      const key = ['--name', name, '--credential', 'api_key=env:ACME_SECRET', '--json']
      const ran = await run(['install', 'either', ...key, ...words], {}, on)
      expect(ran.json()).toMatchObject({ created: true, connect_url: null, check: isChecked ? { ok: true } : null })
    }
    await homeless.close()
    expect((await allIntegrations(test)).map(({ isActive }) => isActive)).toEqual([true, true])
    expect(checked).toHaveLength(isChecked ? 2 : 0)
  })

  it('checks one whose tokens need no person, switches it on, and needs no base URL', async () => {
    const homeless = testIntegrations(database.url, { providers, encryptionKeys: KEYS })
    const installed = { check: { ok: true }, connect_url: null }
    const first = await run(['install', 'machine', ...CLIENT, '--json'], {}, homeless)
    expect(first.json()).toMatchObject({ created: true, ...installed })
    const again = await run(['install', 'machine', ...CLIENT, '--force', '--json'], {}, homeless)
    await homeless.close()
    expect(again.json()).toMatchObject({ created: false, ...installed })
    expect((await allIntegrations(test)).map(({ isActive }) => isActive)).toEqual([true])
    expect(checked).toHaveLength(2)
  })

  it('of a provider with a key or OAuth prints the link where there is no key, and stores nothing without a base URL', async () => {
    const homeless = testIntegrations(database.url, { providers, encryptionKeys: KEYS })
    const refused = await run(['install', 'either', '--json'], {}, homeless)
    await homeless.close()
    expect(refused.json()).toMatchObject({ error: { code: 'base_url_missing' } })
    expect(await allIntegrations(test)).toEqual([])
    const { out } = await run(['install', 'either'])
    expect(out).toContain('/oauth/connect?')
    expect((await allIntegrations(test)).map(({ isActive }) => isActive)).toEqual([false])
    expect(checked).toEqual([])
  })

  it('says how to set a base URL, and stores nothing without one', async () => {
    const homeless = testIntegrations(database.url, { providers, encryptionKeys: KEYS })
    const ran = await run(['install', 'acme', ...CLIENT, '--json'], {}, homeless)
    await homeless.close()
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toEqual({
      error: { code: 'base_url_missing', message: expect.stringContaining('INTEGRATIONS_BASE_URL') },
    })
    expect(await allIntegrations(test)).toEqual([])
  })

  it.each([
    [undefined, 'http://127.0.0.1:3000'],
    ['4000', 'http://127.0.0.1:4000'],
  ])("in dev with PORT=%s leads to this machine's API", async (port, origin) => {
    vi.stubEnv('PORT', port)
    const dev = testIntegrations(database.url, { providers, encryptionKeys: KEYS, dev: true })
    const ran = await run(['install', 'acme', ...CLIENT, '--json'], {}, dev)
    await dev.close()
    expect(new URL((ran.json() as { connect_url: string }).connect_url).origin).toBe(origin)
  })

  it("names the author's fault where the schema asks for what only the authorization brings", async () => {
    const { exitCode, err } = await run(['install', 'greedy', '--credential', 'client_id=app'])
    expect(exitCode).toBe(1)
    expect(err).toContain("access_token can only come when a person has connected it: the provider's credentialsSchema")
    expect(await allIntegrations(test)).toEqual([])
  })

  it('with --force prints a link for one that is not connected yet, and checks one that is', async () => {
    const id = await connected({})
    const before = await run(['install', 'acme', '--name', 'Ours', '--force', '--json'])
    expect(before.json()).toMatchObject({ id, created: false, check: null, connect_url: expect.any(String) })
    await test.integrations.update(id, { credentials: { access_token: ACCESS } })
    const after = await run(['install', 'acme', '--name', 'Ours', '--force', '--json'])
    expect(after.json()).toMatchObject({ id, created: false, check: { ok: true }, connect_url: null })
  })
})

describe('oauth-link', () => {
  it('prints a link for an hour, or for as many as it is told', async () => {
    const id = await connected()
    const hour = (await run(['oauth-link', String(id), '--json'])).json() as { connect_url: string }
    expect(hour).toEqual({
      integration_id: id,
      provider: 'acme',
      connect_url: expect.any(String),
      expires_at: expect.any(String),
    })
    expectConnectLink(hour.connect_url, id, 3_600)
    const week = await run(['oauth-link', String(id), '--hours', '168'])
    expectConnectLink((/^ {2}(https:\S+)$/m.exec(week.out) ?? [])[1] ?? '', id, 7 * 86_400)
  })

  it.each(['0', '169', '1.5', 'x'])('refuses --hours %s', async (hours) => {
    const { exitCode, err } = await run(['oauth-link', '1', '--hours', hours])
    expect(exitCode).toBe(1)
    expect(err).toContain(`whole hours from 1 to 168 (7 days) are allowed, "${hours}" was given`)
  })

  it('refuses an integration whose provider has no OAuth, and one that is not there', async () => {
    const { id } = await test.integrations.create({ provider: 'bare', name: 'Bare', credentials: {} })
    expect((await run(['oauth-link', String(id), '--json'])).json()).toMatchObject({
      error: { code: 'oauth_unsupported' },
    })
    expect((await run(['oauth-link', '999999', '--json'])).json()).toMatchObject({
      error: { code: 'integration_not_found' },
    })
  })
})

describe('oauth-status', () => {
  it('shows how it stands, without a token', async () => {
    const id = await connected({
      access_token: ACCESS,
      refresh_token: REFRESH,
      token_expires_at: '2031-06-01T12:00:00Z',
    })
    expect((await run(['oauth-status', String(id), '--json'])).json()).toMatchObject({
      integration_id: id,
      connected: true,
      token_expires_at: '2031-06-01T12:00:00.000Z',
      has_refresh_token: true,
      reauth_required: false,
      reauth_reason: null,
      reauth_since: null,
      failures: 0,
    })
    expect((await run(['oauth-status', String(id)])).out).not.toContain('oauth-link')
  })

  it('names no command where no authorization is needed, and oauth-link is refused', async () => {
    const { id } = await test.integrations.create({
      provider: 'either',
      name: 'Keyed',
      credentials: { api_key: SECRET },
    })
    const { out } = await run(['oauth-status', String(id)])
    expect(out).toMatch(/^needs_authorization +no$/m)
    expect(out).not.toContain('oauth-link')
    expect((await run(['oauth-link', String(id), '--json'])).json()).toMatchObject({
      error: { code: 'oauth_unsupported' },
    })
  })

  it('names the command that helps when it is not connected', async () => {
    const id = await connected({})
    const { exitCode, out } = await run(['oauth-status', String(id)])
    expect(exitCode).toBe(0)
    expect(out).toMatch(/^connected +no$/m)
    expect(out).toContain(`integrations oauth-link ${id} prints a link`)
  })
})

describe('an integration that a person has to connect again', () => {
  it('says so, and install --force prints a link for it', async () => {
    const id = await connected()
    await markReauthRequired(test.framework, await test.integrations.get(id), 'invalid_grant')
    const { out } = await run(['oauth-status', String(id)])
    expect(out).toMatch(/^reauth_reason +invalid_grant$/m)
    expect(out).toContain(`integrations oauth-link ${id} prints a link`)
    const again = await run(['install', 'acme', '--name', 'Ours', '--force', '--json'])
    expect(again.json()).toMatchObject({ id, created: false, check: null, connect_url: expect.any(String) })
    expect(checked).toEqual([])
  })
})

describe('refresh-tokens', () => {
  it('of an integration that is not there says so, without a worker and without a stack', async () => {
    const ran = await run(['refresh-tokens', '987654'])
    expect(ran).toMatchObject({ exitCode: 1, out: '' })
    expect(ran.err).toMatch(/^There is no integration with id 987654.*\n$/)
  })

  it.each<[string, { refreshed: number; failed: number; reauthRequired: number }, number, string]>([
    ['0 when all are refreshed', { refreshed: 2, failed: 0, reauthRequired: 0 }, 0, ''],
    ['1 when one failed', { refreshed: 1, failed: 1, reauthRequired: 0 }, 1, '1 failed and will be tried again'],
    [
      '1 when a person is needed',
      { refreshed: 1, failed: 1, reauthRequired: 1 },
      1,
      '1 must be connected again by a person',
    ],
  ])('exits with %s', async (_, result, expected, said) => {
    const asked: RefreshTokensInput[] = []
    Object.assign(test.framework.workflows, {
      runTokenRefresh: async (input: RefreshTokensInput) => {
        asked.push(input)
        return { checked: 2, ...result }
      },
    })
    const ran = await run(['refresh-tokens', '--json'])
    expect(ran.exitCode).toBe(expected)
    expect(ran.json()).toEqual({
      checked: 2,
      refreshed: result.refreshed,
      failed: result.failed,
      reauth_required: result.reauthRequired,
    })
    expect(ran.err).toContain(said)
    expect(asked).toEqual([{}])
  })

  it('of one writes down who asked', async () => {
    const id = await connected()
    Object.assign(test.framework.workflows, {
      runTokenRefresh: async () => ({ checked: 1, refreshed: 1, failed: 0, reauthRequired: 0 }),
    })
    expect((await run(['refresh-tokens', String(id)])).exitCode).toBe(0)
    expect(await notes(id)).toEqual([expect.stringMatching(/^refresh-tokens by cli:/)])
  })
})

describe('revoke-oauth', () => {
  it('deletes the tokens once the provider has taken them back, and writes down who asked', async () => {
    const id = await connected()
    const ran = await run(['revoke-oauth', String(id), '--yes', '--json'])
    expect(ran).toMatchObject({ exitCode: 0 })
    expect(ran.json()).toEqual({ integration_id: id, revoked: true, outcome: 'revoked' })
    expect((await test.integrations.get(id)).credentialsArray()).toEqual({ client_id: 'app', client_secret: SECRET })
    expect(await notes(id)).toEqual([expect.stringMatching(/^revoke-oauth by cli:/)])
    expect((await run(['revoke-oauth', String(id), '--yes', '--json'])).json()).toEqual({
      integration_id: id,
      revoked: false,
      outcome: 'nothing to revoke',
    })
  })

  it('keeps them when the provider refuses, unless it is forced', async () => {
    const id = await connected()
    revoke = async () => {
      throw new Error(`no, not ${ACCESS}`)
    }
    const refused = await run(['revoke-oauth', String(id), '--yes', '--json'])
    expect(refused.exitCode).toBe(1)
    expect(refused.json()).toMatchObject({ error: { code: 'revoke_failed' } })
    expect((await test.integrations.get(id)).credentialsArray()).toMatchObject({ access_token: ACCESS })
    expect((await run(['revoke-oauth', String(id), '--yes', '--force'])).exitCode).toBe(0)
    expect((await test.integrations.get(id)).credentialsArray()).not.toHaveProperty('access_token')
  })

  it('asks first, and does nothing where nobody can be asked or the answer is no', async () => {
    const id = await connected()
    expect((await run(['revoke-oauth', String(id), '--json'])).json()).toMatchObject({
      error: { code: 'confirmation_needed' },
    })
    const asked: string[] = []
    const no = await run(['revoke-oauth', String(id)], { answers: { Revoke: false }, asked })
    expect(no).toMatchObject({ exitCode: 1, err: 'Nothing was changed.\n' })
    expect(asked).toEqual([expect.stringContaining('Revoke the authorization of integration')])
    expect((await test.integrations.get(id)).credentialsArray()).toMatchObject({ access_token: ACCESS })
  })
})

async function notes(id: number): Promise<string[]> {
  const rows = await test.sql<{ summary: string }[]>`
    select summary from integration_logs where integration_id = ${id} and operation = 'operator'`
  return rows.map(({ summary }) => summary)
}
