/** Notification targets, told over real HTTP. What a receiver sees is judged by the package `standardwebhooks`. */
import { randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { EgressPolicy } from '../../src/egress/guarded-fetch.ts'
import type { Consumer, DeliveredEvent } from '../../src/events/event-delivery.ts'
import type { IncidentRecord, IntegrationEvents, SyncItemRecord } from '../../src/events/events.ts'
import type { NotificationType } from '../../src/events/notification-rules.ts'
import { NOTIFICATION_TYPE_OF, NOTIFICATION_TYPES } from '../../src/events/notification-rules.ts'
import { notificationConsumers, testNotifications } from '../../src/events/notify.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { HttpServer, Received } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'

type Targets = NonNullable<NonNullable<ConfigInput['notifications']>['targets']>

const SECRET = `whsec_${randomBytes(32).toString('base64')}`
/** As Slack's: whoever has it can post. */
const PATH = '/services/T0PRIVATE/B0PRIVATE/x0PRIVATE'
const CREATED_AT = new Date('2031-05-01T12:00:00.000Z')
const OPENED_AT = new Date('2031-05-01T11:00:00.000Z')

const integration = { id: 7, provider: 'acme', name: 'Acme <&> Söhne' } as Integration
const incident: IncidentRecord = {
  id: 12,
  status: 'open',
  source: 'health',
  reason: 'health_failing',
  peakSeverity: 'failing',
  openedAt: OPENED_AT,
  lastErrorAt: CREATED_AT,
  closedAt: null,
}
const closed: IncidentRecord = { ...incident, status: 'closed', closedAt: CREATED_AT }
const item: SyncItemRecord = {
  id: 55,
  integrationId: 7,
  batchId: null,
  syncLogId: 3,
  eventClass: 'acme.widget_synced',
  externalId: 'w-1',
  checkpointValue: { page: 4 },
  status: 'failed',
  attempts: 3,
  completedAt: CREATED_AT,
  error: 'HttpError: PRIVATE (http_error)',
}

type Payloads = {
  readonly [Name in keyof typeof NOTIFICATION_TYPE_OF]: Omit<IntegrationEvents[Name], 'integration'>
}
const PAYLOADS: Payloads = {
  IncidentOpened: { incident },
  IncidentEscalated: { incident, rises: true },
  IncidentClosed: { incident: closed },
  IntegrationDisabled: {},
  ReauthRequired: { reason: 'invalid_grant: PRIVATE' },
  SyncBecameStale: { secondsSinceSync: 12_000, intervalMinutes: 60 },
  SyncStalenessRecovered: {},
  SyncItemStuck: { item, consecutiveFailedRuns: 3 },
  ElevatedFailureRate: { failureRate: 41.666, windowMinutes: 60, observedRequests: 120, dominantClass: 'upstream' },
  FailureRateRecovered: {},
}

function eventOf<Name extends keyof Payloads>(name: Name, changed: Partial<Payloads[Name]> = {}): DeliveredEvent {
  const payload = { integration, ...PAYLOADS[name], ...changed }
  return { id: 31, name, createdAt: CREATED_AT, payload } as unknown as DeliveredEvent
}

let receiver: HttpServer
let opened: TestIntegrations[] = []

beforeEach(async () => {
  receiver = await startHttpServer()
})

afterEach(async () => {
  vi.restoreAllMocks()
  for (const test of opened) await test.close()
  opened = []
  await receiver.close()
})

/** A deployment whose Postgres nobody asks. */
function withTargets(targets: Targets, egress?: EgressPolicy): TestIntegrations {
  const test = testIntegrations('postgres://nobody@127.0.0.1:1/none', {
    config: { notifications: { targets } },
    ...(egress === undefined ? {} : { egress }),
  })
  opened.push(test)
  return test
}

const standard = (changed: object = {}) => ({
  url: receiver.url + PATH,
  secret: SECRET,
  allow_private: true,
  ...changed,
})
const slack = (changed: object = {}) =>
  ({ url: receiver.url + PATH, format: 'slack', allow_private: true, ...changed }) as const

function answering(status: number, body = '', headers: Record<string, string> = {}): void {
  receiver.answer = (_request, response) => void response.writeHead(status, headers).end(body)
}

async function tell(consumers: readonly Consumer[], event: DeliveredEvent, signal = new AbortController().signal) {
  return Promise.all(consumers.map((consumer) => consumer.deliver(event, signal)))
}

/** Delivers to the one target. @returns what it got */
async function deliver(targets: Targets, event: DeliveredEvent): Promise<Received> {
  const consumers = notificationConsumers(withTargets(targets).framework, event)
  expect(await tell(consumers, event)).toEqual(['delivered'])
  expect(receiver.received).toHaveLength(1)
  return receiver.received[0] as Received
}

function refusal(targets: Targets, event = eventOf('IncidentOpened'), egress?: EgressPolicy): Promise<string> {
  const consumers = notificationConsumers(withTargets(targets, egress).framework, event)
  return tell(consumers, event).then(
    (results) => expect.unreachable(`it was ${results.join()}`),
    (error: Error) => error.message,
  )
}

const headersOf = ({ headers }: Received) => headers as Record<string, string>

describe('a notification', () => {
  const INTEGRATION = { id: 7, provider: 'acme', name: 'Acme <&> Söhne' }
  const INCIDENT = {
    id: 12,
    status: 'open',
    source: 'health',
    reason: 'health_failing',
    peak_severity: 'failing',
    opened_at: '2031-05-01T11:00:00.000Z',
    last_error_at: '2031-05-01T12:00:00.000Z',
    closed_at: null,
  }
  const CLOSED = { ...INCIDENT, status: 'closed', closed_at: '2031-05-01T12:00:00.000Z' }

  it.each<[keyof Payloads, NotificationType, object]>([
    ['IncidentOpened', 'incident.opened', { incident: INCIDENT }],
    ['IncidentEscalated', 'incident.escalated', { incident: INCIDENT }],
    ['IncidentClosed', 'incident.closed', { incident: CLOSED }],
    ['IntegrationDisabled', 'integration.disabled', {}],
    ['ReauthRequired', 'integration.reauth_required', {}],
    ['SyncBecameStale', 'sync.stale', { stream: null, seconds_since_sync: 12_000, interval_minutes: 60 }],
    ['SyncStalenessRecovered', 'sync.recovered', { stream: null }],
    [
      'SyncItemStuck',
      'sync.item_stuck',
      { item: { id: 55, event_class: 'acme.widget_synced', external_id: 'w-1' }, consecutive_failed_runs: 3 },
    ],
    [
      'ElevatedFailureRate',
      'failure_rate.elevated',
      { failure_rate: 41.666, window_minutes: 60, observed_requests: 120, dominant_class: 'upstream' },
    ],
    ['FailureRateRecovered', 'failure_rate.recovered', {}],
  ])('of %s is of the type %s, signed, and without error text', async (name, type, data) => {
    const got = await deliver([standard()], eventOf(name))
    expect(got).toMatchObject({
      method: 'POST',
      url: PATH,
      headers: { 'content-type': 'application/json', 'webhook-id': 'evt_31' },
    })
    // Throws for a wrong signature, and for a time that is not now.
    expect(new Webhook(SECRET).verify(got.body, headersOf(got))).toEqual({
      type,
      timestamp: '2031-05-01T12:00:00.000Z',
      data: { ...data, integration: INTEGRATION },
    })
    expect(got.body).not.toContain('PRIVATE')
  })

  it('has a type for each that a target may be told of', () => {
    expect(Object.values(NOTIFICATION_TYPE_OF).sort()).toEqual([...NOTIFICATION_TYPES].sort())
    expect(Object.keys(PAYLOADS).sort()).toEqual(Object.keys(NOTIFICATION_TYPE_OF).sort())
  })

  it.each(['SyncBecameStale', 'SyncStalenessRecovered'] as const)('of %s says of which stream', async (name) => {
    const got = await deliver([standard()], eventOf(name, { stream: 'contacts' }))
    expect(JSON.parse(got.body).data).toMatchObject({ stream: 'contacts' })
  })

  it('keeps its id and its body when it is told again', async () => {
    const { framework } = withTargets([standard()])
    const event = eventOf('SyncBecameStale')
    const consumers = notificationConsumers(framework, event)
    await tell(consumers, event)
    await tell(consumers, event)
    const [first, second] = receiver.received
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
  })

  it('is one to each target that asks for its type, under a key that does not show the URL', () => {
    const { framework } = withTargets([
      standard(),
      standard({ url: `${receiver.url}/other`, types: ['incident.opened', 'sync.stale'] }),
      standard({ types: ['incident.closed'] }),
      standard({ types: ['incident.opened'] }),
    ])
    const keysOf = (name: keyof Payloads) => notificationConsumers(framework, eventOf(name)).map(({ key }) => key)
    const opening = keysOf('IncidentOpened')
    expect(opening).toEqual([
      expect.stringMatching(/^target:[0-9a-f]{12}$/),
      expect.stringMatching(/^target:[0-9a-f]{12}$/),
      `${opening[0]}#3`,
    ])
    expect(new Set(opening).size).toBe(3)
    expect(keysOf('IncidentClosed')).toEqual([opening[0], `${opening[0]}#2`])
    expect(keysOf('FailureRateRecovered')).toEqual([opening[0]])
  })

  it.each<[string, DeliveredEvent]>([
    ['an escalation by which the incident gets no worse', eventOf('IncidentEscalated', { rises: false })],
    [
      'an event that is no type of notification',
      { ...eventOf('IntegrationDisabled'), name: 'IntegrationCreated' } as DeliveredEvent,
    ],
  ])('is not made of %s', (_what, event) => {
    expect(notificationConsumers(withTargets([standard()]).framework, event)).toEqual([])
  })
})

describe('a target', () => {
  it.each([200, 201, 202, 204, 299])('has taken what it answers by %i', async (status) => {
    answering(status)
    await deliver([standard()], eventOf('IncidentOpened'))
  })

  it('that answers 410 is gone', async () => {
    answering(410)
    const event = eventOf('IncidentOpened')
    expect(await tell(notificationConsumers(withTargets([standard()]).framework, event), event)).toEqual(['gone'])
  })

  it.each([
    [302, '', { location: '/elsewhere' }, 'it answered 302, and redirects are not followed'],
    [307, '', { location: 'https://example.com/' }, 'it answered 307, and redirects are not followed'],
    [304, '', {}, 'it answered 304'],
    [400, 'invalid_payload', {}, 'it answered 400: invalid_payload'],
    [404, '<!doctype html><h1>No</h1>', {}, 'it answered 404'],
    [429, '', { 'retry-after': '30' }, 'it answered 429'],
    [500, `no \u001b[31m\n\nlines${'.'.repeat(1_000)}`, {}, `it answered 500: no [31m lines${'.'.repeat(87)}`],
    [503, `${PATH} is closed, ${SECRET}`, {}, 'it answered 503: [REDACTED] is closed, [REDACTED]'],
  ])('that answers %i is tried again: only 2xx will do', async (status, body, headers, reason) => {
    answering(status, body, headers as Record<string, string>)
    expect(await refusal([standard()])).toBe(`${receiver.url}: ${reason}`)
    expect(receiver.received).toHaveLength(1)
  })

  it('that breaks its answer off is tried again by what it has answered', async () => {
    receiver.answer = (_request, response) => {
      response.writeHead(502, { 'content-length': '100' })
      response.flushHeaders()
      response.destroy()
    }
    expect(await refusal([standard()])).toMatch(/^http:\/\/127\.0\.0\.1:\d+: it answered 502$/)
  })

  it('that nobody listens at is tried again, and no error shows its URL', async () => {
    const { url } = receiver
    await receiver.close()
    const message = await refusal([standard({ url: url + PATH })])
    expect(message).toContain(`${url}: `)
    expect(message).toContain('ECONNREFUSED')
    expect(message).not.toContain('PRIVATE')
    receiver = await startHttpServer()
  })

  it('that hangs is given up with the signal', async () => {
    const asked = new Promise<void>((resolve) => {
      receiver.answer = () => resolve()
    })
    const event = eventOf('IncidentOpened')
    const [consumer] = notificationConsumers(withTargets([standard()]).framework, event)
    expect(consumer?.timeoutMs).toBe(10_000)
    const controller = new AbortController()
    const delivery = consumer?.deliver(event, controller.signal)
    await asked
    const late = new Error('too late')
    controller.abort(late)
    await expect(delivery).rejects.toBe(late)
  })

  it('at a private address is refused, and nothing is sent', async () => {
    expect(await refusal([standard({ allow_private: false })])).toBe(
      `${receiver.url}: EgressRefused: The host "127.0.0.1" is not reached: it is loopback (127.0.0.0/8), not public. ` +
        'To reach it on purpose: the option egress.allow; of a notification target, allow_private. (egress_refused)',
    )
    expect(receiver.received).toEqual([])
  })

  it('that egress.deny names is refused, whatever it allows itself', async () => {
    expect(await refusal([standard()], eventOf('IncidentOpened'), { deny: ['127.0.0.0/8'] })).toContain('egress.deny')
    expect(receiver.received).toEqual([])
  })
})

describe("a target of Slack's format", () => {
  const FOOTER = {
    type: 'context',
    elements: [{ type: 'mrkdwn', text: '2031-05-01T12:00:00.000Z · event 31', verbatim: true }],
  }
  const WHO = 'Acme &lt;&amp;&gt; Söhne (acme, integration 7)'

  it.each<[keyof Payloads, string, string]>([
    ['IncidentOpened', 'Incident 12 opened', '\nSeverity: failing. Cause: health (health_failing).'],
    [
      'IncidentEscalated',
      'Incident 12 got worse',
      '\nSeverity: failing. First cause: health (health_failing), at 2031-05-01T11:00:00.000Z.',
    ],
    [
      'IncidentClosed',
      'Incident 12 closed',
      '\nIt lasted 1 h. At its worst: failing. First cause: health (health_failing).',
    ],
    [
      'IntegrationDisabled',
      'Integration disabled',
      '\nIt failed too often in a row, and makes no calls now. To switch it on again: `integrations enable 7`',
    ],
    [
      'ReauthRequired',
      'Authorization needed',
      '\nIts provider takes the stored tokens no longer. A link for a person who may authorize it: `integrations oauth-link 7`',
    ],
    ['SyncBecameStale', 'Sync is stale', '\nNo clean run for 3 h 20 min; it should sync every 1 h.'],
    ['SyncStalenessRecovered', 'Sync is in time again', ''],
    [
      'SyncItemStuck',
      'Sync item is stuck',
      '\nThe item w-1 (acme.widget_synced) has failed in 3 runs in a row. Look: `integrations list-failed-items --integration 7`',
    ],
    ['ElevatedFailureRate', 'Many requests fail', '\n41.7 % of 120 requests within 1 h, most of them: upstream.'],
    ['FailureRateRecovered', 'Requests succeed again', ''],
  ])('is told of %s in words', async (name, title, details) => {
    const got = await deliver([slack()], eventOf(name))
    expect(JSON.parse(got.body)).toEqual({
      text: `${title}: ${WHO}${details}`,
      blocks: [
        { type: 'section', text: { type: 'mrkdwn', text: `*${title}* · ${WHO}${details}`, verbatim: true } },
        FOOTER,
      ],
    })
    expect(got.body).not.toContain('PRIVATE')
  })

  it.each([
    ['SyncBecameStale', 'Sync of contacts is stale'],
    ['SyncStalenessRecovered', 'Sync of contacts is in time again'],
  ] as const)('is told of %s by stream', async (name, title) => {
    const got = await deliver([slack()], eventOf(name, { stream: 'contacts' }))
    expect(JSON.parse(got.body).text).toContain(`${title}: ${WHO}`)
  })

  it('is not made to call everybody, or more than Slack takes, by a foreign text', async () => {
    const hostile: SyncItemRecord = {
      ...item,
      externalId: `<!channel>\n<https://evil.example|ok>${'&'.repeat(10_000)}`,
    }
    const got = await deliver([slack()], eventOf('SyncItemStuck', { item: hostile }))
    const { text, blocks } = JSON.parse(got.body)
    expect(text).toContain('The item &lt;!channel&gt; &lt;https://evil.example|ok&gt;&amp;')
    expect(text).toContain('&amp;… (acme.widget_synced)')
    for (const shown of [text, blocks[0].text.text]) {
      expect(shown).not.toMatch(/[<>]|&(?!amp;|lt;|gt;)/)
      expect(shown.length).toBeLessThanOrEqual(3_000)
    }
  })

  it('gets no signature without a secret, and one with it', async () => {
    await deliver([slack()], eventOf('IncidentOpened'))
    expect(receiver.received[0]?.headers).not.toHaveProperty('webhook-signature')
    receiver.received.length = 0
    const got = await deliver([slack({ secret: SECRET })], eventOf('IncidentOpened'))
    expect(new Webhook(SECRET).verify(got.body, headersOf(got))).toHaveProperty('text')
  })
})

it.each(['0', '501', 'x'])('the command shows 1 to 500 that were given up, not %s', async (limit) => {
  const words = ['notifications', 'status', '--limit', limit, '--json']
  const ran = await runCommand(withTargets([standard()]).integrations, words)
  expect(ran.json()).toMatchObject({
    error: { code: 'usage', message: expect.stringContaining('a whole number from 1 to 500 is allowed') },
  })
})

describe('a test', () => {
  it('is sent to each target, whatever its types, signed, and says what came of it', async () => {
    receiver.answer = (request, response) => void response.writeHead(request.url === '/down' ? 500 : 204).end()
    const { framework } = withTargets([
      standard({ types: ['incident.closed'] }),
      standard({ url: `${receiver.url}/down` }),
      slack({ url: `${receiver.url}/slack` }),
    ])
    const took = {
      duration_ms: expect.any(Number),
      host: receiver.url,
      listener: expect.stringMatching(/^target:[0-9a-f]{12}$/),
    }
    expect(await testNotifications(framework)).toEqual([
      { target: 1, ok: true, status: 204, error: null, ...took },
      { target: 2, ok: false, status: 500, error: 'it answered 500', ...took },
      { target: 3, ok: true, status: 204, error: null, ...took },
    ])
    const at = (path: string) => receiver.received.find(({ url }) => url === path) as Received
    expect(new Webhook(SECRET).verify(at(PATH).body, headersOf(at(PATH)))).toEqual({
      type: 'test',
      timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
      data: { message: 'A test. Nothing has happened.' },
    })
    expect(at(PATH).headers['webhook-id']).toMatch(/^evt_test_[0-9a-f-]{36}$/)
    expect(JSON.parse(at('/slack').body)).toMatchObject({ text: 'A test: nothing has happened' })
  })

  it('is sent to one, by its place', async () => {
    const { framework } = withTargets([standard(), standard({ url: `${receiver.url}/second` })])
    expect(await testNotifications(framework, { target: 2 })).toMatchObject([{ target: 2, ok: true }])
    expect(receiver.received.map(({ url }) => url)).toEqual(['/second'])
  })

  it.each([
    [1, 'a whole number from 1 to 2 is allowed, the place in notifications.targets; 3 was given', 3],
    [0, 'a whole number from 1 to 2 is allowed, the place in notifications.targets; 0 was given', 0],
    [2, 'a whole number from 1 to 2 is allowed, the place in notifications.targets; 1.5 was given', 1.5],
  ])('to one that is not there is refused (%#)', async (_n, message, target) => {
    const { framework } = withTargets([standard(), standard()])
    await expect(testNotifications(framework, { target })).rejects.toThrow(`Invalid target: ${message}`)
    expect(receiver.received).toEqual([])
  })

  it('waits 10 seconds for an answer', async () => {
    const controller = new AbortController()
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(controller.signal)
    receiver.answer = () => controller.abort(new DOMException('late', 'TimeoutError'))
    const sent = await testNotifications(withTargets([standard()]).framework)
    expect(timeout).toHaveBeenCalledExactlyOnceWith(10_000)
    expect(sent).toMatchObject([{ ok: false, status: null, error: 'no answer within 10 seconds' }])
  })

  it('is a command, which needs no Postgres and shows no URL', async () => {
    answering(404, 'no_service')
    const { integrations } = withTargets([slack(), standard()])
    const ran = await runCommand(integrations, ['notifications', 'test', '--json'])
    expect(ran.json()).toEqual(
      [1, 2].map((target) => ({
        target,
        listener: expect.stringMatching(target === 1 ? /^target:[0-9a-f]{12}$/ : /^target:[0-9a-f]{12}#2$/),
        host: receiver.url,
        ok: false,
        status: 404,
        duration_ms: expect.any(Number),
        error: 'it answered 404: no_service',
      })),
    )
    expect(ran).toMatchObject({ exitCode: 1, err: '' })

    answering(200)
    const one = await runCommand(integrations, ['notifications', 'test', '--target', '2'])
    expect(one).toMatchObject({ exitCode: 0, err: '' })
    expect(one.out).toMatch(
      /^Target\s+Listener\s+Host\s+OK\s+Status\s+ms\s+Error\n\s*2\s+target:[0-9a-f]{12}#2\s+http:\/\/127\.0\.0\.1:\d+\s+yes\s+200\s+\d+\s+-\n$/,
    )
    expect(ran.out + one.out).not.toContain('PRIVATE')
  })

  it('of no target has nobody to tell', async () => {
    const { integrations } = withTargets([])
    expect(await runCommand(integrations, ['notifications', 'test'])).toMatchObject({
      exitCode: 0,
      out: 'There is no target to notify: notifications.targets is empty.\n',
    })
    expect(await runCommand(integrations, ['notifications', 'test', '--target', '1'])).toMatchObject({
      exitCode: 1,
      err: 'Invalid target: notifications.targets is empty, 1 was given\n',
    })
  })

  it.each([
    [['test', '--limit', '3'], '--limit goes with status, it was given with test.'],
    [['status', '--target', '1'], '--target goes with test, it was given with status.'],
    [['test', '--event', '3'], '--event goes with retry, it was given with test.'],
  ])('takes its own options only: %j', async (words, message) => {
    const ran = await runCommand(withTargets([standard()]).integrations, ['notifications', ...words, '--json'])
    expect(ran).toMatchObject({ exitCode: 1 })
    expect(ran.json()).toEqual({ error: { code: 'usage', message } })
  })
})
