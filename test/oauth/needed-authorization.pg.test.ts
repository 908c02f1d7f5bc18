/** A provider with a key or OAuth: of an integration with a key no authorization is asked. Rule: docs/behaviour/oauth.md, "A key or OAuth". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { tokenActivities } from '../../src/activities/token-activities.ts'
import { createApi } from '../../src/api/app.ts'
import { oauthReauthorization, oauthRefreshes } from '../../src/integrations/doctor/integration-checks.ts'
import type { DoctorProbes } from '../../src/integrations/doctor/run-doctor.ts'
import { healthReport } from '../../src/integrations/health-report.ts'
import { noteTokenRefreshFailed } from '../../src/oauth/keep-alive.ts'
import { markReauthRequired } from '../../src/oauth/reauth.ts'
import { tokensOf } from '../../src/oauth/rules.ts'
import type { Credentials, Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'
import { scriptedOAuth } from './scripted-oauth.ts'

const KEY: Credentials = { api_key: 'a-key-of-the-tests' }
const OLD_TOKENS: Credentials = {
  access_token: 'access-token-of-the-tests',
  refresh_token: 'refresh-token-of-the-tests',
  token_expires_at: '2031-06-01T00:00:00Z',
}
const NOON = Date.parse('2031-06-01T12:00:00Z')

let database: TestDatabase
let test: TestIntegrations
let nowMs: number
/** Integrations whose tokens the provider was asked for. */
let refreshed: number[]

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys: encryptionKey('needed'),
    baseUrl: BASE_URL,
    clock: { now: () => new Date(nowMs) },
    config: { operator: { tokens: TOKENS } },
    providers: {
      acme: scriptedOAuth(
        ({ id }) => {
          refreshed.push(id)
          return { access_token: 'a-new-token-of-the-tests', refresh_token: 'a-new-refresh-token' }
        },
        { needsAuthorization: (integration) => !('api_key' in integration.credentialsArray()) },
      ),
    },
  })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  nowMs = NOON
  refreshed = []
  await test.sql`delete from integrations`
  await test.sql`delete from integration_cache`
})

const keyed = (more: Credentials = {}) => makeIntegration(test, 'acme', { credentials: { ...KEY, ...more } })
const unkeyed = () => makeIntegration(test, 'acme', { credentials: OLD_TOKENS })

/** One that waited for a person when it was given a key. */
async function keyedSince(): Promise<Integration> {
  const integration = await unkeyed()
  await (await markReauthRequired(test.framework, integration, 'invalid_grant'))()
  await integration.updateCredentials(KEY)
  return integration
}

async function open(path: string) {
  const answer = await createApi(test.integrations).request(path, {
    headers: { authorization: `Bearer ${OPERATE_TOKEN}` },
  })
  return [answer.status, await answer.json()]
}

describe('an integration with a key', () => {
  it('is in order in list, health, the operator pages and status, though it waited for a person before', async () => {
    const { id } = await keyedSince()
    const waiting = await unkeyed()
    await (await markReauthRequired(test.framework, waiting, 'invalid_grant'))()
    const summaries = new Map<number, boolean>()
    for await (const each of test.integrations.admin.summaries()) summaries.set(each.id, each.reauthRequired)
    expect(summaries).toEqual(
      new Map([
        [id, false],
        [waiting.id, true],
      ]),
    )
    expect(await healthReport(test.framework, id)).toMatchObject({ reauthRequired: false })
    expect(await healthReport(test.framework, waiting.id)).toMatchObject({ reauthRequired: true })
    const { data } = await test.integrations.admin.operator.page({ limit: 10 })
    expect(new Map(data.map((row) => [row.id, row.reauthRequired]))).toEqual(summaries)
    expect(await test.integrations.oauth.status(id)).toMatchObject({
      needsAuthorization: false,
      reauth: null,
      nextRefreshAt: null,
    })
    expect(await test.integrations.oauth.status(waiting.id)).toMatchObject({
      needsAuthorization: true,
      reauth: { reason: 'invalid_grant' },
    })
  })

  it('is no finding of the doctor', async () => {
    const probes = {} as DoctorProbes
    const { id } = await keyedSince()
    const failing = [await keyed(OLD_TOKENS), await unkeyed()] as const
    for (const integration of failing)
      await noteTokenRefreshFailed(
        test.framework,
        integration,
        tokensOf(integration.credentialsArray()),
        new Error('503'),
      )
    nowMs += 2 * 3_600_000
    const reauthorization = [await oauthReauthorization.look(test.framework, probes)].flat()
    expect(reauthorization).toMatchObject([{ status: 'ok' }])
    const refreshes = [await oauthRefreshes.look(test.framework, probes)].flat()
    expect(refreshes).toMatchObject([{ status: 'warning', remedy: `integrations refresh-tokens ${failing[1].id}` }])
    await (await test.integrations.get(id)).updateCredentials({ api_key: null })
    expect([await oauthReauthorization.look(test.framework, probes)].flat()).toMatchObject([
      { remedy: `integrations oauth-link ${id}` },
    ])
  })

  it('has nothing refreshed, by a pass or by name, nor by who asks for a token', async () => {
    const integration = await keyed(OLD_TOKENS)
    const other = await unkeyed()
    const activities = tokenActivities(
      test.framework,
      () => ({ cancellationSignal: new AbortController().signal }) as never,
    )
    expect(await activities.refreshTokensNow({ integrationId: integration.id })).toMatchObject({
      checked: 0,
      failed: 0,
    })
    expect(await activities.refreshTokensNow({})).toMatchObject({ checked: 1, refreshed: 1 })
    expect(await integration.getAccessToken()).toBe(OLD_TOKENS.access_token)
    expect([integration.tokenExpiresSoon(), await integration.refreshTokenIfNeeded()]).toEqual([false, false])
    expect(refreshed).toEqual([other.id])
  })

  it('is told of a 401 as of any answer: no token is refreshed for it', async () => {
    const integration = await keyed(OLD_TOKENS)
    const call = () => new Response('{}', { status: 401 })
    await expect(integration.request('users', 'GET', call)).rejects.toMatchObject({ status: 401 })
    expect(refreshed).toEqual([])
  })

  it('is not led to the provider: by no route, link or start', async () => {
    const { id } = await keyed()
    const refusal = {
      error: 'oauth_unsupported',
      message: expect.stringContaining(`Integration ${id} needs no authorization`),
    }
    expect(await open(`/integrations/${id}/oauth/authorize`)).toEqual([400, refusal])
    expect(await open(`/integrations/${id}/oauth/connect`)).toEqual([400, refusal])
    for (const work of [
      () => test.integrations.oauth.start(id),
      () => test.integrations.oauth.link(id, { action: 'connect' }),
      () => test.integrations.oauth.link(id, { action: 'authorize' }),
    ])
      await expect(work()).rejects.toMatchObject({ code: 'oauth_unsupported', integrationId: id })
    // What is left of an earlier authorization can be taken back.
    expect(await test.integrations.oauth.link(id, { action: 'revoke' })).toContain(`/${id}/oauth/revoke?`)
    expect(await test.integrations.oauth.revoke(id)).toBe('nothing to revoke')
  })
})

it('an authorization that the person refuses says so where the integration has been given a key meanwhile', async () => {
  const integration = await unkeyed()
  const { state } = await test.integrations.oauth.start(integration.id)
  await integration.updateCredentials(KEY)
  const callback = `/integrations/oauth/callback?state=${encodeURIComponent(state)}&error=access_denied`
  expect(await open(callback)).toEqual([400, expect.objectContaining({ error: 'authorization_denied' })])
})

it('an integration whose provider can not say, since its credentials are unreadable, needs an authorization', async () => {
  const integration = await keyedSince()
  await setIntegration(test, integration.id, { credentials: 'plain text' })
  expect(await healthReport(test.framework, integration.id)).toMatchObject({ reauthRequired: true })
})
