/** What an API process keeps of the owners of deliveries, and that it never decides by what is behind. */
import { randomUUID } from 'node:crypto'
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { BASE_URL } from '../support/operators.ts'
import { CREDENTIALS, SECRET, sign, webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, setIntegration } from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'

const OTHER_SECRET = 'another secret of the tests'
/** So many candidates are asked on a generic route. */
const MAX_CANDIDATES = 100

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let clock: ManualClock
let integration: Integration
let provider: string
let providers = 0

beforeAll(async () => {
  database = await createTestDatabase()
  clock = new ManualClock()
  test = testIntegrations(database.url, { clock })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  provider = register()
  integration = await makeIntegration(test, provider)
})

describe('the statements of a delivery', () => {
  it('are no more where this process changes an integration of another provider', async () => {
    const other = await makeIntegration(test, register())
    await deliver()
    await test.integrations.update(other.id, { metadata: { changed: true } })
    await other.updateCredentials({ changed: true })
    const statements = countingStatements()
    await deliver()
    expect(statements()).toBe(1)
  })

  it('are two for the first of an integration, one for the next ones', async () => {
    const statements = countingStatements()
    await deliver()
    expect(statements()).toBe(2)
    await deliver()
    await deliver()
    expect(statements()).toBe(4)
  })

  it('are shared by deliveries that wait at the same time, whatever their integration', async () => {
    const others = await Promise.all(Array.from({ length: 20 }, () => makeIntegration(test, provider)))
    for (const to of others) await deliver({ to })
    const statements = countingStatements()
    const answers = await Promise.all([...others, ...others].map((to) => deliver({ to })))
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 200))
    // Two at once begin with one delivery each; the others wait for them together.
    expect(statements()).toBeLessThanOrEqual(4)
  })

  it('need no decryption for the next ones', async () => {
    const { encryption } = test.framework
    const decrypt = vi.fn<typeof encryption.decrypt>((id, text) => encryption.decrypt(id, text))
    Object.assign(test.framework, { encryption: { ...encryption, decrypt } })
    onTestFinished(() => void Object.assign(test.framework, { encryption }))
    await deliver()
    expect(decrypt).toHaveBeenCalledTimes(1)
    await deliver()
    await deliver()
    expect(decrypt).toHaveBeenCalledTimes(1)
  })
})

describe('an owner that changes between two deliveries', () => {
  beforeEach(async () => {
    expect(await statusOf(deliver())).toBe(200)
  })

  it('by being switched off is 404 at once', async () => {
    await test.sql`update integrations set is_active = false where id = ${integration.id}`
    expect(await statusOf(deliver())).toBe(404)
  })

  it('by being deleted is 404 at once', async () => {
    await test.integrations.delete(integration.id)
    expect(await statusOf(deliver())).toBe(404)
  })

  it('by an act of this process owns the deliveries of the generic route at once', async () => {
    const other = await makeIntegration(test, provider)
    const owner = async (): Promise<unknown> => {
      const id = randomUUID()
      expect(await statusOf(deliver({ path: `/integrations/${provider}/webhook`, id }))).toBe(200)
      const [row] = await test.sql`select integration_id from integration_webhooks where delivery_id = ${id}`
      return Number(row?.integration_id)
    }
    expect(await owner()).toBe(integration.id)
    await test.integrations.disable(integration.id)
    expect(await owner()).toBe(other.id)
    await test.integrations.enable(integration.id)
    expect(await owner()).toBe(integration.id)
    await integration.updateCredentials({ webhook_secret: OTHER_SECRET })
    expect(await owner()).toBe(other.id)
    await test.integrations.update(integration.id, { credentials: { webhook_secret: SECRET } })
    expect(await owner()).toBe(integration.id)
  })

  it('by an authorization, a refresh or a revocation in this process is read again at once', async () => {
    const THIRD_SECRET = 'a third secret of the tests'
    const tokens = { access_token: 'access-of-the-tests', refresh_token: 'refresh-of-the-tests' }
    const refresh = async () => ({ ...tokens, access_token: 'renewed-of-the-tests', webhook_secret: THIRD_SECRET })
    const expiry = { token_expires_at: '2000-01-01T00:00:00Z' }
    const exchangeCode = async () => ({ ...tokens, ...expiry, webhook_secret: OTHER_SECRET })
    const oauth = { ...webhookProvider(), ...scriptedOAuth(refresh, { exchangeCode, revokeToken: async () => {} }) }
    const own = testIntegrations(database.url, { baseUrl: BASE_URL, providers: { [provider]: oauth } })
    onTestFinished(() => own.close())
    const through = createApi(own.integrations)
    const { id } = await makeIntegration(own, provider)
    const second = await makeIntegration(own, provider, { credentials: { webhook_secret: OTHER_SECRET } })
    const third = await makeIntegration(own, provider, { credentials: { webhook_secret: THIRD_SECRET } })
    await own.integrations.disable(integration.id)
    const owner = async (secret: string): Promise<unknown> => {
      const delivery = randomUUID()
      const path = `/integrations/${provider}/webhook`
      expect(await statusOf(deliver({ through, path, secret, id: delivery }))).toBe(200)
      const [row] = await test.sql`select integration_id from integration_webhooks where delivery_id = ${delivery}`
      return Number(row?.integration_id)
    }
    expect(await owner(OTHER_SECRET)).toBe(second.id)
    const { state } = await own.integrations.oauth.start(id)
    const query = new URLSearchParams({ state, code: 'a-code-of-the-tests' })
    await own.integrations.oauth.complete({ query, cookie: () => undefined })
    expect(await owner(OTHER_SECRET)).toBe(id)
    expect(await owner(THIRD_SECRET)).toBe(third.id)
    await (await own.integrations.get(id)).getAccessToken()
    expect(await owner(THIRD_SECRET)).toBe(id)
    const before = performance.now()
    await own.integrations.oauth.revoke(id)
    expect(own.framework.integrationsChanged.get(provider)).toBeGreaterThan(before)
  })

  it('by being switched off in this process is 404 at once, also for what is too large or unwanted', async () => {
    const body = 'x'.repeat(test.framework.config.webhook.max_payload_bytes + 1)
    expect(await statusOf(deliver({ body }))).toBe(413)
    await integration.disable()
    expect(await statusOf(deliver({ body }))).toBe(404)
    await integration.enable()
    await test.integrations.update(integration.id, { metadata: { webhook_events: ['other.made'] } })
    expect(await answerTo({})).toBe('unwanted')
    await integration.disable()
    expect(await statusOf(deliver())).toBe(404)
  })

  it('by its health is still asked', async () => {
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect(await statusOf(deliver())).toBe(200)
  })

  it('by getting another secret is verified by that one, and by no other', async () => {
    await integration.updateCredentials({ webhook_secret: OTHER_SECRET })
    expect(await statusOf(deliver())).toBe(403)
    expect(await statusOf(deliver({ secret: OTHER_SECRET }))).toBe(200)
  })

  it('by getting a second secret takes both', async () => {
    await integration.updateCredentials({ webhook_secrets: [{ secret: OTHER_SECRET }] })
    expect(await statusOf(deliver({ secret: OTHER_SECRET }))).toBe(200)
    expect(await statusOf(deliver())).toBe(200)
  })

  it('in ways of no matter here takes the delivery, with one read more', async () => {
    await setIntegration(test, integration.id, { name: 'renamed' })
    const statements = countingStatements()
    expect(await statusOf(deliver())).toBe(200)
    expect(statements()).toBe(3)
  })

  it('all the time is stored all the same', async () => {
    const to = await makeIntegration(
      test,
      register({
        verifyWebhookSignature: async ({ id }) => {
          await test.sql`update integrations set name = name || '.' where id = ${id}`
          return true
        },
      }),
    )
    expect(await statusOf(deliver({ to }))).toBe(200)
    expect(await statusOf(deliver({ to }))).toBe(200)
  })

  it('all the time is not stored for one that is switched off meanwhile', async () => {
    let verified = 0
    const to = await makeIntegration(
      test,
      register({
        verifyWebhookSignature: async ({ id }) => {
          verified += 1
          await test.sql`update integrations set name = name || '.', is_active = ${verified < 3} where id = ${id}`
          return true
        },
      }),
    )
    expect(await statusOf(deliver({ to }))).toBe(404)
    expect(verified).toBe(3)
    expect(await test.sql`select 1 from integration_webhooks where integration_id = ${to.id}`).toHaveLength(0)
  })
})

describe('a refusal', () => {
  it('is never by what was read before the delivery came in: a hundred wrong ones need few reads, and a right one passes', async () => {
    await deliver()
    const statements = countingStatements()
    const wrong = Promise.all(Array.from({ length: 100 }, () => deliver({ secret: OTHER_SECRET })))
    expect((await wrong).map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 403))
    expect(statements()).toBeLessThanOrEqual(2)
    await integration.updateCredentials({ webhook_secret: OTHER_SECRET })
    expect(await statusOf(deliver({ secret: OTHER_SECRET }))).toBe(200)
  })

  it('on the generic route asks for integrations that are new', async () => {
    const path = `/integrations/${provider}/webhook`
    expect(await statusOf(deliver({ path }))).toBe(200)
    await makeIntegration(test, provider, { credentials: { ...CREDENTIALS, webhook_secret: OTHER_SECRET } })
    expect(await statusOf(deliver({ path, secret: OTHER_SECRET }))).toBe(200)
  })

  it('is told at most once a minute for each integration, with how many there were and nothing of what was sent', async () => {
    const second = await makeIntegration(test, provider)
    for (const to of [integration, integration, second, integration])
      expect(await statusOf(deliver({ to, secret: OTHER_SECRET, body: 'body-of-a-forger' }))).toBe(403)
    expect(refusals()).toMatchObject([
      { integration: integration.id, provider, times: 1, total: 1 },
      { integration: second.id, provider, times: 1, total: 1 },
    ])
    clock.advance({ minutes: 1 })
    await deliver({ secret: OTHER_SECRET })
    expect(refusals()[2]).toMatchObject({ integration: integration.id, times: 3, total: 4 })
    expect(JSON.stringify(test.lines)).not.toContain('body-of-a-forger')
    expect(JSON.stringify(test.lines)).not.toContain(sign('body-of-a-forger', OTHER_SECRET))
  })

  it('is told as seldom where a forger gives it other reasons, and how many each has', async () => {
    const path = `/integrations/${provider}/${integration.id}/webhook`
    const forged = (headers: Record<string, string>) => api.request(path, { method: 'POST', headers, body: '{}' })
    const signatures = [{}, { 'x-signature': 'no digest' }, { 'x-signature': sign('{}', OTHER_SECRET) }, {}]
    for (const headers of signatures) expect((await forged(headers)).status).toBe(403)
    expect(refusals()).toMatchObject([{ integration: integration.id, times: 1, reasons: { signature_missing: 1 } }])
    clock.advance({ minutes: 1 })
    await forged({ 'x-signature': sign('{}', OTHER_SECRET) })
    const reasons = { signature_malformed: 1, mismatch: 2, signature_missing: 1 }
    expect(refusals()[1]).toMatchObject({ times: 4, total: 5, reasons })
    expect(refusals()).toHaveLength(2)
  })

  it('by a verifier that throws is told as seldom, without the secret', async () => {
    const verifyWebhookSignature = () => {
      throw new Error(`can't verify with ${SECRET}`)
    }
    const to = await makeIntegration(test, register({ verifyWebhookSignature }))
    for (let times = 0; times < 3; times += 1) expect(await statusOf(deliver({ to }))).toBe(403)
    const lines = test.lines.filter(({ message }) => message.includes('verifyWebhookSignature() threw'))
    expect(lines.filter(({ fields }) => fields.integration === to.id)).toHaveLength(1)
    expect(JSON.stringify(test.lines)).not.toContain(SECRET)
  })

  it('of one that is switched off is told as seldom; one of an integration that does not exist is not told', async () => {
    await test.integrations.disable(integration.id)
    for (let times = 0; times < 3; times += 1) expect(await statusOf(deliver())).toBe(404)
    expect(linesOf('webhook.switched_off')).toMatchObject([{ integration: integration.id, times: 1, total: 1 }])
    clock.advance({ minutes: 1 })
    await deliver()
    expect(linesOf('webhook.switched_off')[1]).toMatchObject({ integration: integration.id, times: 3, total: 4 })
    await test.integrations.delete(integration.id)
    clock.advance({ minutes: 1 })
    expect(await statusOf(deliver())).toBe(404)
    expect(linesOf('webhook.switched_off')).toHaveLength(2)
  })

  const refusals = () => linesOf('webhook.refused')
  const linesOf = (wanted: string) =>
    test.lines.map(({ fields }) => fields).filter(({ event, provider: of }) => event === wanted && of === provider)
})

describe('forged deliveries on a generic route', () => {
  it('cost a process a tenth of its time beyond three seconds; more are told to come again, unread', async () => {
    const { addresses, advance, asked, through, genuine } = await crowd({ of: 10, eachTakesMs: 100 })
    const statuses: number[] = []
    for (let times = 0; times < 20; times += 1)
      statuses.push(await statusOf(deliver({ ...addresses.generic, secret: OTHER_SECRET, through })))
    expect(statuses.slice(0, 3)).toEqual([403, 403, 403])
    expect(new Set(statuses.slice(5))).toEqual(new Set([503]))
    // The first integration of each delivery is free: it would be asked on a route of its own, too.
    expect(asked()).toBeLessThan(45)
    const pulled = vi.fn()
    const body = new ReadableStream({ pull: pulled }, { highWaterMark: 0 })
    const unread = await through.request(addresses.generic.path, {
      method: 'POST',
      body,
      duplex: 'half',
    } as RequestInit)
    expect([unread.status, unread.headers.get('retry-after')]).toEqual([503, '30'])
    expect(pulled).not.toHaveBeenCalled()
    expect(await statusOf(deliver({ to: genuine, through }))).toBe(200)
    advance(60_000)
    expect(await statusOf(deliver({ ...addresses.generic, through }))).toBe(200)
  })

  it('cost a genuine one nothing', async () => {
    const { addresses, through } = await crowd({ of: 10, eachTakesMs: 100 })
    for (let times = 0; times < 20; times += 1)
      expect(await statusOf(deliver({ ...addresses.generic, through }))).toBe(200)
  })

  it('let other requests have a turn every 10 ms', async () => {
    const { addresses, asked, through } = await crowd({ of: 10, eachTakesMs: 5 })
    const askedAtTurn = new Set<number>()
    const lookOn = () => {
      askedAtTurn.add(asked())
      if (asked() < 10) setImmediate(lookOn)
    }
    setImmediate(lookOn)
    expect(await statusOf(deliver({ ...addresses.generic, secret: OTHER_SECRET, through }))).toBe(403)
    // After every second one, or sooner.
    const turns = [0, ...askedAtTurn, 10]
    expect(Math.max(...turns.slice(1).map((at, n) => at - (turns[n] ?? 0)))).toBe(2)
  })

  /** Integrations of one provider, of which the last one's secret is the right one, and a clock that only their verifier moves. */
  async function crowd({ of, eachTakesMs }: { of: number; eachTakesMs: number }) {
    let passedMs = 0
    let asked = 0
    const { now } = performance
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now.call(performance) + passedMs)
    onTestFinished(() => clock.mockRestore())
    const verifyWebhookSignature: NonNullable<HandlesWebhooks['verifyWebhookSignature']> = (integration, request) => {
      passedMs += eachTakesMs
      asked += 1
      return (
        request.headers.get('x-signature') ===
        sign(request.rawBody, String(integration.credentialsArray().webhook_secret))
      )
    }
    const own = testIntegrations(database.url, { providers: { crowded: webhookProvider({ verifyWebhookSignature }) } })
    onTestFinished(own.close)
    await own.sql`delete from integrations where provider = 'crowded'`
    const others = { credentials: { ...CREDENTIALS, webhook_secret: 'of another one, whatever is sent' } }
    for (let n = 1; n < of; n += 1) await makeIntegration(own, 'crowded', others)
    return {
      genuine: await makeIntegration(own, 'crowded'),
      addresses: { generic: { path: '/integrations/crowded/webhook' } },
      asked: () => asked,
      advance: (ms: number) => {
        passedMs += ms
      },
      through: createApi(own.integrations),
    }
  }
})

it('holds 256 MiB of bodies at once, and tells what is beyond to come again', async () => {
  const MIB = 1_048_576
  const [held, goOn] = [occasion(), occasion()]
  const body = '{"n":1}'
  const received = (bytes: number, waits = false) =>
    test.integrations.webhooks.receive({
      provider,
      integrationId: integration.id,
      method: 'POST',
      path: '',
      query: '',
      headers: new Headers({ 'x-signature': sign(body, SECRET), 'x-delivery': randomUUID(), 'x-event': 'thing.made' }),
      async readBody(_, room) {
        if (!room.take(bytes)) return { kind: 'no room' }
        if (waits) {
          held.happen()
          await goOn.happened
        }
        return { kind: 'read', bytes: Buffer.from(body) }
      },
    })
  const first = received(200 * MIB, true)
  await held.happened
  expect(await received(57 * MIB)).toEqual({ kind: 'unavailable', isUnread: true })
  const second = received(56 * MIB, true)
  const beyond = await createApi(test.integrations).request(`/integrations/${provider}/${integration.id}/webhook`, {
    method: 'POST',
    body: new Blob([new Uint8Array(100_000)]).stream(),
    duplex: 'half',
  } as RequestInit)
  // Closed only once the body is read, so that the sender sees the answer.
  expect(Object.fromEntries(beyond.headers)).toMatchObject({ 'retry-after': '30', connection: 'close' })
  expect(beyond.status).toBe(503)
  goOn.happen()
  expect(await second).toMatchObject({ kind: 'queued' })
  expect(await first).toMatchObject({ kind: 'queued' })
  expect(await received(256 * MIB)).toMatchObject({ kind: 'queued' })
})

it('warns at most once a minute of a generic route with too many integrations', async () => {
  const { db, tables } = test.framework
  const credentials = await test.sql`select credentials from integrations where id = ${integration.id}`
  await db.insert(tables.integrations).values(
    Array.from({ length: MAX_CANDIDATES - 1 }, (_, n) => ({
      provider,
      name: `candidate ${n}`,
      credentials: String(credentials[0]?.credentials),
    })),
  )
  const path = `/integrations/${provider}/webhook`
  const warned = () =>
    test.lines.filter(({ fields }) => fields.provider === provider && fields.asked === MAX_CANDIDATES)
  expect(await statusOf(deliver({ path }))).toBe(200)
  expect(warned()).toHaveLength(0)
  // One more than are asked; seen after a refusal at the latest: 503, since the credentials of all but two are another's.
  await makeIntegration(test, provider)
  expect(await statusOf(deliver({ path, secret: OTHER_SECRET }))).toBe(503)
  expect(await statusOf(deliver({ path }))).toBe(200)
  expect(await statusOf(deliver({ path }))).toBe(200)
  expect(warned()).toHaveLength(1)
  clock.advance({ minutes: 1 })
  await deliver({ path })
  expect(warned()).toHaveLength(2)
})

it('gives each reader of nested credentials its own', async () => {
  const seen: number[] = []
  const to = await makeIntegration(
    test,
    register({
      verifyWebhookSignature: (of) => {
        const { list } = of.credentialsArray() as { list: number[] }
        seen.push(list.length)
        list.pop()
        return true
      },
    }),
    { credentials: { list: [1, 2, 3] } },
  )
  await deliver({ to })
  await deliver({ to })
  expect(seen).toEqual([3, 3])
})

it('tells listeners before it wakes the inbox, and waits for neither', async () => {
  const order: string[] = []
  listen(test, 'WebhookReceived', () => {
    order.push('told')
    return new Promise(() => {})
  })
  const { workflows } = test.framework
  const wake = vi.spyOn(workflows, 'wakeInbox').mockImplementation(() => void order.push('woken'))
  expect(await statusOf(deliver())).toBe(200)
  wake.mockRestore()
  expect(order).toEqual(['told', 'woken'])
})

it('handles fifty copies at once one time: one row, one run, fifty answers', async () => {
  const handleWebhook = vi.fn(() => ({ done: true }))
  const to = await makeIntegration(test, register({ handleWebhook }))
  const id = randomUUID()
  const answers = await Promise.all(
    Array.from({ length: 50 }, async () => {
      const response = await deliver({ to, id })
      return [response.status, ((await response.json()) as { status: string }).status]
    }),
  )
  expect(answers.map(([status]) => status)).toEqual(Array.from({ length: 50 }, () => 200))
  expect(answers.filter(([, status]) => status === 'queued')).toHaveLength(1)
  await workOff(test.framework)
  expect(handleWebhook).toHaveBeenCalledTimes(1)
  expect(await logsOf(test, to.id, 'webhook')).toHaveLength(1)
})

describe('the same signed bytes under another id', () => {
  const unsigned = (overrides: Partial<HandlesWebhooks> = {}) => register({ deliveryIdSigned: false, ...overrides })

  it('are a duplicate where the id is not signed, a delivery where it is', async () => {
    const to = await makeIntegration(test, unsigned())
    expect(await answerTo({ to, id: 'a' })).toBe('queued')
    expect(await answerTo({ to, id: 'b' })).toBe('duplicate')
    expect(await answerTo({ id: 'a' })).toBe('queued')
    expect(await answerTo({ id: 'b' })).toBe('queued')
  })

  it('are one delivery, whatever its unsigned type, query and path say', async () => {
    const to = await makeIntegration(test, unsigned())
    const [generic, own] = [`/integrations/${to.provider}/webhook`, `/integrations/${to.provider}/${to.id}/webhook`]
    const answers = await Promise.all(
      Array.from({ length: 150 }, (_, n) =>
        answerTo({ to, id: randomUUID(), type: `type.${n}`, path: `${n % 2 === 0 ? generic : own}?n=${n}` }),
      ),
    )
    expect(answers.filter((answer) => answer === 'queued')).toHaveLength(1)
    expect(answers.filter((answer) => answer === 'duplicate')).toHaveLength(149)
  })

  it('are another delivery with another body or integration, or once the window is over', async () => {
    const to = await makeIntegration(test, unsigned())
    expect(await answerTo({ to, id: 'a' })).toBe('queued')
    expect(await answerTo({ to, id: 'c', body: '{"n":2}' })).toBe('queued')
    expect(await answerTo({ to: await makeIntegration(test, to.provider), id: 'a' })).toBe('queued')
    const { replay_window: seconds } = test.framework.config.webhook
    clock.advance({ seconds: seconds - 1 })
    expect(await answerTo({ to, id: 'd' })).toBe('duplicate')
    clock.advance({ seconds: 1 })
    expect(await answerTo({ to, id: 'e' })).toBe('queued')
  })

  it('are those that webhookSignedBytes() names: a repeat has another body and is one, another one has the same body', async () => {
    const to = await makeIntegration(
      test,
      unsigned({ verifyWebhookSignature: () => true, webhookSignedBytes: ({ query }) => query.get('n') ?? '' }),
    )
    const get = async (query: string, id: string) => {
      const path = `/integrations/${to.provider}/${to.id}/webhook?${query}`
      return (await (await api.request(path, { headers: { 'x-delivery': id } })).json()) as { status: string }
    }
    expect(await get('n=1', 'a')).toEqual({ status: 'queued' })
    expect(await get('n=2', 'b')).toEqual({ status: 'queued' })
    expect(await get('n=1&unsigned=1', 'c')).toEqual({ status: 'duplicate' })
  })

  it('are the body where webhookSignedBytes() throws or names nothing: the delivery is not lost', async () => {
    const fails = () => {
      throw new Error('no such header')
    }
    for (const webhookSignedBytes of [fails, () => null as never]) {
      const to = await makeIntegration(test, unsigned({ webhookSignedBytes }))
      expect(await answerTo({ to, id: 'a' })).toBe('queued')
      expect(await answerTo({ to, id: 'b' })).toBe('duplicate')
      expect(await answerTo({ to, id: 'c', body: '{"n":2}' })).toBe('queued')
    }
  })

  it('are a delivery when the window is 0', async () => {
    const off = testIntegrations(database.url, {
      providers: { off: webhookProvider({ deliveryIdSigned: false }) },
      config: { webhook: { replay_window: 0 } },
    })
    onTestFinished(off.close)
    const to = await makeIntegration(off, 'off')
    const through = createApi(off.integrations)
    expect(await answerTo({ to, id: 'a', through })).toBe('queued')
    expect(await answerTo({ to, id: 'b', through })).toBe('queued')
  })

  it('go from the cache with their integration', async () => {
    const to = await makeIntegration(test, unsigned())
    await deliver({ to })
    const kept = () =>
      test.sql`select 1 from integration_cache where key like ${`%integration:${to.id}:webhook-signed:%`}`
    expect(await kept()).toHaveLength(1)
    await test.integrations.delete(to.id)
    expect(await kept()).toHaveLength(0)
  })
})

function register(overrides: Partial<HandlesWebhooks> = {}): string {
  providers += 1
  const key = `arrival-${providers}`
  test.integrations.register(key, webhookProvider(overrides))
  return key
}

interface Sent {
  readonly to?: Integration
  readonly path?: string
  readonly body?: string
  readonly secret?: string
  readonly id?: string
  readonly type?: string
  readonly through?: Hono
}

async function deliver({
  to = integration,
  path = `/integrations/${to.provider}/${to.id}/webhook`,
  body = '{"n":1}',
  secret = SECRET,
  id = randomUUID(),
  type = 'thing.made',
  through = api,
}: Sent = {}): Promise<Response> {
  const headers = { 'x-signature': sign(body, secret), 'x-delivery': id, 'x-event': type }
  return through.request(path, { method: 'POST', headers, body })
}

async function statusOf(response: Promise<Response>): Promise<number> {
  return (await response).status
}

async function answerTo(sent: Sent): Promise<string> {
  return ((await (await deliver(sent)).json()) as { status: string }).status
}

/** How many statements the framework's own pools have sent since. */
function countingStatements(): () => number {
  const { db, arrivalDb } = test.framework
  const spies = [db, arrivalDb].map((one) => vi.spyOn(one._.session, 'prepareQuery'))
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore()
  })
  return () => spies.reduce((sum, spy) => sum + spy.mock.calls.length, 0)
}
