/** Credentials: checked, encrypted, merged, never shown. */
import { inspect } from 'node:util'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { patchedCredentials } from '../../src/credentials/credentials.ts'
import type { IntegrationRow } from '../../src/db/schema/tables.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, TOKEN, webhookProvider } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const Schema = z.looseObject({ token: z.string().min(8), nested: z.object({ port: z.number() }).optional() })

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  const providers = {
    plain: {},
    strict: { credentialsSchema: Schema },
    webhooks: webhookProvider(),
    asynchronous: { credentialsSchema: z.looseObject({ token: z.string().refine(async () => true) }) },
    reading: {
      credentialsSchema: z.looseObject({
        key: z
          .string()
          .transform((text) => Buffer.from(text, 'base64').toString())
          .optional(),
        account: z
          .string()
          .transform((text) => JSON.parse(text) as unknown)
          .optional(),
        list: z
          .any()
          .transform((text) => (text === undefined ? undefined : JSON.parse(text)))
          .optional(),
        token: z.string().min(8),
      }),
    },
  }
  test = testIntegrations(database.url, { providers })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

describe('stored credentials', () => {
  it('are an envelope bound to the row, and come back as given', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const [row] = await test.sql`select credentials from integrations where id = ${id}`
    expect(row?.credentials).toMatch(/^v1\.test\.[\w-]+\.[\w-]+\.[\w-]+$/)
    expect(row?.credentials).not.toContain(TOKEN)
    expect((await test.integrations.get(id)).credentialsArray()).toEqual(CREDENTIALS)
  })

  it('copied to another row can not be read there', async () => {
    const [from, to] = [await makeIntegration(test, 'plain'), await makeIntegration(test, 'plain')]
    await test.sql`update integrations set credentials = (select credentials from integrations where id = ${from.id}) where id = ${to.id}`
    const copied = await to.refresh()
    expect(() => copied.credentialsArray()).toThrow(
      expect.objectContaining({ code: 'credentials_unreadable', integrationId: to.id }),
    )
  })

  it('are a copy: changing it changes nothing', async () => {
    const integration = await makeIntegration(test, 'plain')
    integration.credentialsArray().token = 'changed'
    expect(integration.credentialsArray().token).toBe(TOKEN)
  })

  it.each([
    ['inspect', (handle: Integration) => inspect(handle, { depth: 10, showHidden: true, getters: true })],
    ['JSON', (handle: Integration) => JSON.stringify(handle)],
    ['JSON of something around it', (handle: Integration) => JSON.stringify({ deep: [handle] })],
    ['a template', (handle: Integration) => `${handle}`],
    ['its own values', (handle: Integration) => inspect(Object.values({ ...handle }), { depth: 10 })],
  ])('are not shown by %s', async (_, show) => {
    const integration = await makeIntegration(test, 'plain')
    integration.credentialsArray()
    for (const secret of Object.values(CREDENTIALS)) expect(show(integration)).not.toContain(secret)
    expect(JSON.parse(JSON.stringify(integration))).toEqual({
      id: integration.id,
      provider: 'plain',
      name: 'of a test',
    })
  })
})

describe('a patch', () => {
  it.each<[string, Record<string, unknown>, boolean, Record<string, unknown>]>([
    ['merges: absent keys stay', { added: 1 }, false, { ...CREDENTIALS, added: 1 }],
    ['replaces a value', { token: 'another' }, false, { ...CREDENTIALS, token: 'another' }],
    ['removes by null', { webhook_secret: null }, false, { token: TOKEN }],
    ['keeps what is false, 0 or empty', { a: false, b: 0, c: '' }, false, { ...CREDENTIALS, a: false, b: 0, c: '' }],
    ['replaces all when told', { token: 'only' }, true, { token: 'only' }],
  ])('%s', async (_, patch, replace, after) => {
    const integration = await makeIntegration(test, 'plain')
    await integration.updateCredentials(patch, { replace })
    expect((await integration.refresh()).credentialsArray()).toEqual(after)
  })

  it('is what the same handle goes on with: its next call, its next attempt, and listeners', async () => {
    const integration = await makeIntegration(test, 'plain')
    const heard: unknown[] = []
    const hear = (event: { integration: Integration }) => heard.push(event.integration.credentialsArray().token)
    listen(test, 'CredentialsUpdated', hear)
    const send = (sent: unknown[]) => () => {
      sent.push(integration.credentialsArray().token)
      return new Response('{}')
    }
    const sent: unknown[] = []
    await integration.request('users', 'GET', send(sent))
    await integration.updateCredentials({ token: 'a-second-token' })
    await integration.request('users', 'GET', send(sent))
    await integration.updateCredentials({ token: 'a-third-token' }, { replace: true })
    await integration.request('users', 'GET', send(sent))
    expect(sent).toEqual([TOKEN, 'a-second-token', 'a-third-token'])
    expect(heard.slice(-2)).toEqual(['a-second-token', 'a-third-token'])
    expect(integration.credentialsArray()).toEqual({ token: 'a-third-token' })
  })

  it('that is refused leaves the handle as it was', async () => {
    const integration = await makeIntegration(test, 'strict')
    await expect(integration.updateCredentials({ token: 'short' })).rejects.toMatchObject({
      code: 'invalid_credentials',
    })
    expect(integration.credentialsArray()).toEqual(CREDENTIALS)
  })

  it('that is refused in words that quote it is named without it', async () => {
    const message = (issue: { readonly input?: unknown }): string => `"${issue.input}" is no secret key`
    const credentialsSchema = z.object({
      api_key: z.string().refine((key) => key.startsWith('sk_'), { error: message }),
    })
    test.integrations.register('quoting', { credentialsSchema }, { replace: true })
    const given = { provider: 'quoting', name: 'n', credentials: { api_key: 'pk_live_0123456789' } }
    const refusal = await test.integrations.create(given).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'invalid_credentials', message: expect.stringContaining('api_key') })
    expect(inspect(refusal, { depth: 10 })).not.toContain('pk_live_0123456789')
  })

  it('leaves a key alone whose value is undefined', async () => {
    const integration = await makeIntegration(test, 'plain')
    await integration.updateCredentials({ token: undefined, added: 1 })
    expect((await integration.refresh()).credentialsArray()).toEqual({ ...CREDENTIALS, added: 1 })
  })

  it('with what JSON can not hold is refused, naming the key and the rule, never the value', async () => {
    const integration = await makeIntegration(test, 'plain')
    const refusal = await integration
      .updateCredentials({ expires: new Date('2031-02-03'), a: 1 })
      .catch((error) => error)
    expect(refusal).toMatchObject({ code: 'invalid_argument', argument: 'credentials' })
    expect(refusal.message).toBe(
      'Invalid credentials: texts, finite numbers, booleans, null, and lists and plain objects of them are allowed in it; "expires" is or holds something else',
    )
    expect((await integration.refresh()).credentialsArray()).toEqual(CREDENTIALS)
  })

  it('is refused when the schema makes something of it that JSON can not hold', async () => {
    test.integrations.register('dated', { credentialsSchema: z.object({ at: z.coerce.date() }) }, { replace: true })
    await storesNothing(async () => {
      await expect(
        test.integrations.create({ provider: 'dated', name: 'n', credentials: { at: '2031-02-03' } }),
      ).rejects.toMatchObject({ code: 'invalid_argument', message: expect.stringContaining('schema returns') })
    })
  })

  it('tells CredentialsUpdated with keys, never values', async () => {
    const integration = await makeIntegration(test, 'plain')
    const told = vi.fn()
    listen(test, 'CredentialsUpdated', told)
    await integration.updateCredentials({ token: 'a-brand-new-token', gone: null })
    expect(told.mock.calls[0]?.[0]).toMatchObject({ keys: ['token', 'gone'] })
    expect(JSON.stringify(told.mock.calls)).not.toContain('a-brand-new-token')
  })

  it('and another at the same moment both come in, however many', async () => {
    const integration = await makeIntegration(test, 'plain')
    await Promise.all(Array.from({ length: 24 }, (_, n) => integration.updateCredentials({ [`key${n}`]: n })))
    const stored = (await integration.refresh()).credentialsArray()
    expect(Object.keys(stored)).toHaveLength(24 + Object.keys(CREDENTIALS).length)
  })

  it('is refused while the credentials can not be read; a replacement is not', async () => {
    const integration = await makeIntegration(test, 'plain')
    await setIntegration(test, integration.id, { credentials: 'plain text' })
    await expect(integration.updateCredentials({ a: 1 })).rejects.toMatchObject({ code: 'credentials_unreadable' })
    const unreadable = await integration.refresh()
    await unreadable.updateCredentials({ token: 'fresh' }, { replace: true })
    expect(unreadable.credentialsArray()).toEqual({ token: 'fresh' })
    expect((await integration.refresh()).credentialsArray()).toEqual({ token: 'fresh' })
  })

  it('of a row that is gone says so', async () => {
    const integration = await makeIntegration(test, 'plain')
    await test.sql`delete from integrations where id = ${integration.id}`
    await expect(integration.updateCredentials({ a: 1 })).rejects.toMatchObject({ code: 'integration_not_found' })
  })
})

describe('credentials that do not fit', () => {
  it.each<[string, unknown]>([
    ['null', null],
    ['a list', ['a']],
    ['a text', 'token'],
    ['a Map', new Map([['token', 'a']])],
    ['a Date', new Date()],
    ['an object of a class', new (class Keys {})()],
    ['an object with a bigint', { token: 1n }],
    ['an object with a Date deep in it', { a: [{ b: new Date() }] }],
    ['an object with NaN', { port: Number.NaN }],
    ['more than 64 KiB', { blob: 'x'.repeat(65_536) }],
  ])('as %s are refused at create, nothing stored', async (_, credentials) => {
    await storesNothing(async () => {
      await expect(
        test.integrations.create({ provider: 'plain', name: 'n', credentials: credentials as never }),
      ).rejects.toMatchObject({ code: 'invalid_argument', argument: 'credentials' })
    })
  })

  it('the schema: the error names paths, not values', async () => {
    await storesNothing(async () => {
      const credentials = { token: 'shorty', nested: { port: 'a-port-text' } }
      const error = await test.integrations
        .create({ provider: 'strict', name: 'n', credentials })
        .catch((refused) => refused)
      expect(error).toMatchObject({
        code: 'invalid_credentials',
        field: 'credentials',
        issues: [{ path: 'token' }, { path: 'nested.port' }],
      })
      expect(inspect(error, { depth: 10 })).not.toMatch(/shorty|a-port-text/)
    })
  })

  it('the end of a former webhook secret are refused; a patch that does not name it may pass', async () => {
    const entry = { secret: 'a-former-secret', expires_at: '3600' }
    const refused = {
      code: 'invalid_credentials',
      issues: [{ path: 'webhook_secrets.1.expires_at', message: expect.stringContaining('ISO 8601') }],
      message: expect.not.stringContaining('a-former-secret'),
    }
    const integration = await makeIntegration(test, 'webhooks')
    for (const expires_at of ['3600', 1_767_225_600, 'soon']) {
      const credentials = {
        webhook_secrets: [
          { ...entry, expires_at: null },
          { ...entry, expires_at },
        ],
      }
      await expect(integration.updateCredentials(credentials)).rejects.toMatchObject(refused)
      await expect(makeIntegration(test, 'webhooks', { credentials })).rejects.toMatchObject(refused)
    }
    const times = ['2031-06-01T12:00:00Z', '2031-06-01 14:00:00+02:00', null]
    await integration.updateCredentials({ webhook_secrets: times.map((expires_at) => ({ ...entry, expires_at })) })

    const former = await makeIntegration(test, 'plain', { credentials: { token: TOKEN, webhook_secrets: [entry] } })
    await setIntegration(test, former.id, { provider: 'webhooks' })
    await (await former.refresh()).updateCredentials({ token: 'a-new-token' })
  })

  it('an asynchronous schema are refused with an error of ours', async () => {
    await expect(makeIntegration(test, 'asynchronous', { credentials: { token: TOKEN } })).rejects.toMatchObject({
      code: 'invalid_credentials',
      issues: [{ path: 'credentials', message: expect.stringContaining('synchronously') }],
    })
  })

  it('the schema after a patch are refused, the stored ones stay', async () => {
    const integration = await makeIntegration(test, 'strict')
    const before = await envelopeOf(integration.id)
    await expect(integration.updateCredentials({ token: null })).rejects.toMatchObject({ code: 'invalid_credentials' })
    await expect(integration.updateCredentials({ other: 1 }, { replace: true })).rejects.toMatchObject({
      issues: [{ path: 'token' }],
    })
    expect(await envelopeOf(integration.id)).toBe(before)
  })
})

describe('credentials that the schema has changed as it read them', () => {
  const key = '-----BEGIN KEY-----'
  const given = { key: Buffer.from(key).toString('base64'), account: '{"id":1}', token: 'the-first-token' }
  const stored = { key, account: { id: 1 }, token: 'the-first-token' }

  it('are not read a second time by a change of others', async () => {
    const integration = await makeIntegration(test, 'reading', { credentials: given })
    expect(integration.credentialsArray()).toEqual(stored)
    await integration.updateCredentials({ token: 'the-second-token', key: null })
    expect((await integration.refresh()).credentialsArray()).toEqual({ account: { id: 1 }, token: 'the-second-token' })
    await integration.updateCredentials({ ...given, account: '{"id":2}' }, { replace: true })
    expect((await integration.refresh()).credentialsArray()).toEqual({ ...stored, account: { id: 2 } })
  })

  it('are refused, with an error of ours, where the schema throws at a second reading; a refresh saves its tokens', async () => {
    const integration = await makeIntegration(test, 'reading', { credentials: { token: given.token, list: '{"a":1}' } })
    await expect(integration.updateCredentials({ other: 'x' })).rejects.toMatchObject({
      code: 'invalid_credentials',
      issues: [{ path: 'credentials', message: expect.stringContaining('SyntaxError') }],
    })
    const [row] = await test.framework.db
      .select()
      .from(test.framework.tables.integrations)
      .where(eq(test.framework.tables.integrations.id, integration.id))
    const saved = patchedCredentials(test.framework, row as IntegrationRow, { token: 'refreshed' }, { ofRefresh: true })
    expect(test.framework.encryption.decrypt(integration.id, saved)).toMatchObject({
      token: 'refreshed',
      list: { a: 1 },
    })
  })

  it('are read where the change names them, and refused where it does not fit', async () => {
    const credentials = { key: given.key, token: given.token }
    const integration = await makeIntegration(test, 'reading', { credentials })
    await integration.updateCredentials({ account: '{"id":3}' })
    expect((await integration.refresh()).credentialsArray()).toEqual({ ...stored, account: { id: 3 } })
    await expect(integration.updateCredentials({ token: 7 })).rejects.toMatchObject({ issues: [{ path: 'token' }] })
    expect((await integration.refresh()).credentialsArray()).toEqual({ ...stored, account: { id: 3 } })
  })
})

async function envelopeOf(id: number): Promise<unknown> {
  const [row] = await test.sql`select credentials from integrations where id = ${id}`
  return row?.credentials
}

async function storesNothing(work: () => Promise<void>): Promise<void> {
  const count = async () => Number((await test.sql`select count(*) as n from integrations`)[0]?.n)
  const before = await count()
  await work()
  expect(await count()).toBe(before)
}
