/** Tokens that several real processes ask for at once, and a refresher that is killed: a server rotates, and counts. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { reauthMark } from '../../src/oauth/reauth.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { HttpServer } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'
import { installedScript } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import type { TalkingProcess } from '../support/talking-process.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import type { Said } from './tokens-process.ts'
import { CALLS_A_PROCESS, oauthProvider } from './tokens-process.ts'

const SCRIPT = installedScript(new URL('tokens-process.ts', import.meta.url))
const PROCESSES = 4
const ENCRYPTION_KEY = encryptionKey('k1')
/** How long a killed refresher keeps the others waiting, at most: longer than any machine stands still. */
const LOCK_SECONDS = 60

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
let test: TestIntegrations
let server: HttpServer
const processes: ManagedProcess[] = []
/** How many refresh tokens were given out; the last one is good, and the one before it while the server is lenient. */
let given = 0
let isLenient = false

beforeAll(async () => {
  postgres = await sharePostgres()
  database = await createTestDatabase({ adminUrl: postgres.url })
  server = await startHttpServer()
  server.answer = (_request, response) => {
    const sent = new URLSearchParams(server.received.at(-1)?.body).get('refresh_token')
    const isGood = sent === `refresh-token-${given}` || (isLenient && sent === `refresh-token-${given - 1}`)
    if (isGood) given += 1
    response.writeHead(isGood ? 200 : 400, { 'Content-Type': 'application/json' })
    const token_expires_at = new Date(Date.now() + 3_600_000).toISOString()
    const tokens = { access_token: `access-token-${given}`, refresh_token: `refresh-token-${given}`, token_expires_at }
    response.end(JSON.stringify(isGood ? tokens : { error: 'invalid_grant' }))
  }
  test = testIntegrations(database.url, {
    encryptionKeys: ENCRYPTION_KEY,
    providers: { oauth: oauthProvider(server.url) },
    config: { oauth: { refresh_lock_ttl: LOCK_SECONDS, refresh_lock_wait: 30 } },
  })
})
beforeEach(() => {
  given = 0
  isLenient = false
  server.received.length = 0
})
afterEach(async () => {
  await Promise.all(processes.splice(0).map((child) => child.stop()))
})
afterAll(async () => {
  await server?.close()
  await test?.close()
  await database?.drop()
  await postgres?.release()
})

const makeExpired = (): Promise<Integration> =>
  test.integrations.create({
    provider: 'oauth',
    name: 'of a test',
    credentials: {
      access_token: 'access-token-0',
      refresh_token: 'refresh-token-0',
      token_expires_at: '2020-01-01T00:00:00Z',
    },
  })

async function start(...args: string[]): Promise<TalkingProcess<Said>> {
  const started = await startTalkingProcess<Said>(SCRIPT, args, {
    DATABASE_URL: database.url,
    INTEGRATIONS_ENCRYPTION_KEYS: ENCRYPTION_KEY,
    INTEGRATIONS__OAUTH__REFRESH_LOCK_TTL: String(LOCK_SECONDS),
    // So that no caller's patience is what is tested, however slow the machine.
    INTEGRATIONS__OAUTH__REFRESH_LOCK_WAIT: '120',
  })
  processes.push(started.process)
  return started
}

it('100 callers in four processes get the new token of one refresh', async () => {
  const integration = await makeExpired()
  const running = await Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      const racer = await start('race', String(integration.id), server.url)
      await racer.next('ready')
      return racer
    }),
  )
  const raced = running.map((racer) => racer.next('raced'))
  for (const { process: child } of running) child.child.send('go')
  const outcomes = (await Promise.all(raced)).flatMap((said) => said.outcomes)
  expect(outcomes).toEqual(Array(PROCESSES * CALLS_A_PROCESS).fill('access-token-1'))
  expect(server.received).toHaveLength(1)
  expect((await test.integrations.get(integration.id)).credentialsArray()).toMatchObject({
    access_token: 'access-token-1',
    refresh_token: 'refresh-token-1',
  })
})

describe('a refresher that is killed after the provider has replaced the refresh token, and before it is stored', () => {
  async function killed(): Promise<Integration> {
    const integration = await makeExpired()
    const { process: child, next } = await start('stand', String(integration.id), server.url)
    await next('standing')
    child.child.kill('SIGKILL')
    expect(await child.exited).toEqual({ code: null, signal: 'SIGKILL' })
    expect(given).toBe(1)
    // Its lock is there, and would be for a minute: all but a second of that passes at once.
    const locks = await test.sql`
      update integration_cache set expires_at = clock_timestamp() + interval '1 second'
      where key = ${`integrations:integration:${integration.id}:lock:tokens`} and expires_at > clock_timestamp()
      returning key`
    expect(locks).toHaveLength(1)
    return test.integrations.get(integration.id)
  }

  it('has lost the tokens: a person is told of it, and why', async () => {
    const integration = await killed()
    expect(integration.credentialsArray()).toMatchObject({ refresh_token: 'refresh-token-0' })
    const reason = expect.stringMatching(
      /^invalid_grant; a refresh that began at .*Z was cut off before its tokens were stored$/,
    )
    // Waits for the dead one's lock.
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'reauth_required', reason })
    expect(await reauthMark(test.framework, integration.id)).toMatchObject({ reason })
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'reauth_required' })
    expect(server.received).toHaveLength(2)
  })

  it('has lost nothing where the provider takes the old one for a while: the next refresh mends it', async () => {
    const integration = await killed()
    isLenient = true
    expect(await integration.getAccessToken()).toBe('access-token-2')
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
    expect((await test.integrations.get(integration.id)).credentialsArray()).toMatchObject({
      refresh_token: 'refresh-token-2',
    })
  })
})
