/** Routes of the operator API that its commands have besides: rate limits, health checks, erasure, what is in force; and `update`. */
import { hostname } from 'node:os'
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createApi } from '../../src/api/app.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { OPERATE_TOKEN, READ_TOKEN, TOKENS } from '../support/operators.ts'
import { reachableTemporal } from '../support/reachable-temporal.ts'
import { logsOf, makeIntegration, makeWebhook } from '../support/rows.ts'

const LATER = '2099-01-01T00:00:00.000Z'
const owner = { type: 'team', id: 7 }

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let integration: Integration
let isGood = true
const away = () => Promise.reject(new BackendUnreachable('Temporal', 'temporal.example:7233', { remedy: 'Start it.' }))

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      acme: {
        defaultRateLimit: () => RateLimit.perMinute(60),
        metadataSchema: z.looseObject({ retries: z.number().optional() }),
        healthCheck: async () => isGood,
      },
      plain: {},
    },
    config: { operator: { tokens: TOKENS } },
  })
  Object.assign(test.framework, { temporal: { ...reachableTemporal(), check: away, schedules: away } })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  isGood = true
  integration = await makeIntegration(test, 'acme', { owner })
})

async function ask(method: string, path: string, body?: object, token = OPERATE_TOKEN) {
  const response = await api.request(`/operator/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const of = (path: string) => `/integrations/${integration.id}${path}`
const acts = async () => (await logsOf(test, integration.id, 'operator')).map(({ metadata }) => metadata)

describe('the rate limit', () => {
  it('is shown, overridden until a moment, and given back; each change says who asked', async () => {
    const plain = { integration_id: integration.id, source: 'provider', limit: 60, window_seconds: 60 }
    expect(await ask('GET', of('/rate-limit-override'), undefined, READ_TOKEN)).toMatchObject({
      status: 200,
      body: plain,
    })
    const given = { limit: 5, window_seconds: 1, window: 'sliding', until: LATER }
    const set = await ask('PUT', of('/rate-limit-override'), given)
    const { until: _, ...limit } = given
    expect(set).toMatchObject({ status: 200, body: { ...limit, source: 'override', override_until: LATER } })
    expect(await ask('DELETE', of('/rate-limit-override'))).toMatchObject({ status: 200, body: plain })
    expect(await acts()).toMatchObject([
      { token: 'operator', action: 'rate-limit set 5 in 1 s, sliding' },
      { token: 'operator', action: 'rate-limit clear' },
    ])
  })

  it.each([
    ['without a window', { limit: 5 }, 'window_seconds'],
    ['of 0 calls', { limit: 0, window_seconds: 1 }, 'limit'],
    ['of another kind of window', { limit: 5, window_seconds: 1, window: 'rolling' }, 'window'],
    ['until a moment that was', { limit: 5, window_seconds: 1, until: '2001-01-01T00:00:00Z' }, 'until'],
  ])('%s is a 422 that names the field, and nothing changes', async (_, body, path) => {
    const { status, body: problem } = await ask('PUT', of('/rate-limit-override'), body)
    expect([status, problem]).toMatchObject([422, { fields: [{ path }] }])
    expect((await ask('GET', of('/rate-limit-override'))).body).toMatchObject({ source: 'provider' })
    expect(await acts()).toEqual([])
  })
})

describe('the health check', () => {
  it('says what the provider says', async () => {
    const answer = { id: integration.id, ok: true, duration_ms: expect.any(Number), error: null }
    expect(await ask('POST', of('/test'))).toEqual({ status: 200, body: answer })
    isGood = false
    expect(await ask('POST', of('/test'))).toMatchObject({
      status: 200,
      body: { ok: false, error: 'The health check did not answer true.' },
    })
    expect((await ask('POST', of('/test'), undefined, READ_TOKEN)).status).toBe(403)
  })

  it('is a 422 where the provider has none', async () => {
    const { id } = await makeIntegration(test, 'plain')
    expect(await ask('POST', `/integrations/${id}/test`)).toMatchObject({
      status: 422,
      body: { code: 'unsupported_by_provider' },
    })
  })
})

it('an erasure blanks what the integration holds, and says who asked', async () => {
  await makeWebhook(test, integration.id)
  const erased = await ask('POST', of('/erase'))
  expect(erased).toMatchObject({ status: 200, body: { id: integration.id, erased: { webhooks: 1 } } })
  expect((await test.integrations.get(integration.id)).credentialsArray()).toEqual({})
  test.starts.running.add(integration.id)
  expect(await ask('POST', of('/erase'))).toMatchObject({ status: 409, body: { code: 'integration_busy' } })
  expect((await ask('POST', of('/erase'), { force: true })).status).toBe(200)
  const entries = []
  for await (const entry of test.integrations.admin.audit.list({ integrationId: integration.id })) entries.push(entry)
  expect(entries).toMatchObject([
    { by: 'operator', action: 'erase' },
    { by: 'operator', action: 'erase' },
  ])
})

describe('what is in force', () => {
  it('is found by its key, its source and whether it differs', async () => {
    const { body } = await ask('GET', '/configuration?changed=true', undefined, READ_TOKEN)
    expect(body.data).toMatchObject([{ key: expect.stringMatching(/^operator\.tokens/), source: 'options' }])
    // A token's hash is a secret as well.
    for (const { sha256 } of TOKENS) expect(JSON.stringify(body)).not.toContain(sha256)
    const { body: one } = await ask('GET', '/configuration?key=webhook.max_attempts')
    expect(one.data).toMatchObject([{ key: 'webhook.max_attempts', source: 'default' }])
    expect(await ask('GET', '/configuration?key=webhok')).toMatchObject({
      status: 422,
      body: { fields: [{ path: 'key' }] },
    })
  })

  it('is looked at by the doctor, who is well enough to answer', async () => {
    const { status, body } = await ask('GET', '/doctor', undefined, READ_TOKEN)
    expect(status).toBe(200)
    expect(body).toMatchObject({ ok: false })
    expect(body.findings).toContainEqual(expect.objectContaining({ check: 'temporal.reachable', status: 'fault' }))
    expect(body.findings).toContainEqual(expect.objectContaining({ check: 'database.reachable', status: 'ok' }))
  })

  it('has Schedules, which are Temporal’s', async () => {
    const state = {
      ...{ name: 'dispatch', id: 'integrations:dispatch', standing: 'in step', differences: [], isPaused: false },
      ...{ note: null, lastRunAt: new Date(0), nextRunAt: null },
    }
    const { temporal } = test.framework
    expect((await ask('GET', '/schedules')).status).toBe(503)
    Object.assign(test.framework, {
      temporal: { ...temporal, schedules: async () => [state], searchAttributes: async () => [] },
    })
    const { status, body } = await ask('GET', '/schedules', undefined, READ_TOKEN)
    Object.assign(test.framework, { temporal })
    expect([status, body]).toMatchObject([
      200,
      { schedules: [{ id: state.id, paused: false, last_run_at: '1970-01-01T00:00:00.000Z' }], search_attributes: [] },
    ])
  })
})

describe('a token that is limited to an owner', () => {
  let token: string

  beforeAll(async () => {
    const limited = { name: 'theirs', scope: 'operate', owner, by: 'ada' } as const
    token = (await test.integrations.admin.tokens.create(limited)).token
  })

  it('sees and changes its own integrations alone', async () => {
    const foreign = await makeIntegration(test, 'acme', { owner: { type: 'team', id: 8 } })
    const { body } = await ask('GET', '/integrations', undefined, token)
    const ids = (body.data as { id: number }[]).map(({ id }) => id)
    expect(ids).toContain(integration.id)
    expect(ids).not.toContain(foreign.id)
    for (const [method, path, given] of [
      ['GET', ''],
      ['PATCH', '', { name: 'Taken' }],
      ['POST', '/test'],
      ['POST', '/erase'],
      ['POST', '/enable'],
      ['GET', '/rate-limit-override'],
      ['DELETE', '/rate-limit-override'],
      ['GET', '/health'],
    ] as const) {
      const at = `/integrations/${foreign.id}${path}`
      expect([at, (await ask(method, at, given, token)).status]).toEqual([at, 404])
      expect([method, path, (await ask(method, of(path), given, token)).status]).toEqual([method, path, 200])
    }
    for (const path of ['/doctor', '/configuration', '/schedules', '/stats'])
      expect([path, (await ask('GET', path, undefined, token)).status]).toEqual([path, 403])
    const made = await ask('POST', '/integrations', { provider: 'plain', name: 'n', credentials: {} }, token)
    expect(made.status).toBe(403)
  })

  it('gives none of them away', async () => {
    for (const given of [
      { owner_type: 'team', owner_id: 8 },
      { owner_type: null, owner_id: null },
    ])
      expect(await ask('PATCH', of(''), given, token)).toMatchObject({
        status: 403,
        body: { code: 'insufficient_scope' },
      })
    const same = { owner_type: 'team', owner_id: 7, name: 'Ours' }
    expect(await ask('PATCH', of(''), same, token)).toMatchObject({ status: 200, body: same })
  })
})

describe('update', () => {
  const update = (...words: string[]) => runCommand(test.integrations, ['update', String(integration.id), ...words])

  it('changes what is given, merges metadata, and says who asked from where', async () => {
    await test.integrations.update(integration.id, { metadata: { repo: 'site', branch: 'main' } })
    const ran = await update(
      '--name',
      'Ours',
      '--owner',
      'team:9',
      '--metadata',
      'repo=docs',
      '--metadata',
      'retries=3',
      '--json',
    )
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toMatchObject({
      ...{ id: integration.id, name: 'Ours', owner_type: 'team', owner_id: 9 },
      metadata: { repo: 'docs', branch: 'main', retries: 3 },
    })
    expect(await acts()).toEqual([
      {
        token: expect.stringMatching(/^cli:/),
        action: 'update',
        target: `integration:${integration.id}`,
        from: hostname(),
      },
    ])
  })

  it('twice at once loses no metadata', async () => {
    const both = occasion()
    let reading = 0
    const add = (word: string) =>
      runCommand(test.integrations, ['update', String(integration.id), '--metadata', word], {
        stdin: async () => {
          reading += 1
          if (reading === 2) both.happen()
          await both.happened
          return 'given'
        },
      })
    await Promise.all([add('one=-'), add('two=-')])
    expect((await test.integrations.get(integration.id)).metadata).toMatchObject({ one: 'given', two: 'given' })
  })

  it('of nothing is refused', async () => {
    const err = 'Give what to change: --name, --owner, --sync-interval or --metadata; none of them was given.'
    expect(await update()).toMatchObject({ exitCode: 1, err: expect.stringContaining(err) })
    expect(await ask('PATCH', of(''), {})).toMatchObject({
      status: 422,
      body: { fields: [{ path: '', message: expect.stringContaining('is_active are allowed') }] },
    })
  })
})
