/** From what happens to an integration to what a notification target has received, over rows and HTTP. */
import { randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { DeliveredEvents } from '../../src/testing/jobs-in-process.ts'
import { deliverDueEvents } from '../../src/testing/jobs-in-process.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { HttpServer } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const SECRET = `whsec_${randomBytes(32).toString('base64')}`
const KEY = encryptionKey('test')
const START = new Date('2031-05-01T12:00:00.000Z')

let database: TestDatabase
let test: TestIntegrations
let clock: ManualClock
let ops: HttpServer
let chat: HttpServer

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

beforeEach(async () => {
  ops = await startHttpServer()
  chat = await startHttpServer()
  clock = new ManualClock(START)
  // So that a receiver, in this very process, sees the same time.
  vi.useFakeTimers({ toFake: ['Date'], now: START })
  test = testIntegrations(database.url, {
    clock,
    encryptionKeys: KEY,
    config: {
      health: { degraded_after: 1, failing_after: 2, disabled_after: 3 },
      notifications: {
        targets: [
          { url: `${ops.url}/PRIVATE-ops`, secret: SECRET, allow_private: true },
          {
            url: `${chat.url}/services/PRIVATE-chat`,
            format: 'slack',
            types: ['incident.opened', 'incident.closed'],
            allow_private: true,
          },
        ],
      },
    } satisfies ConfigInput,
    providers: { acme: {} },
  })
})

afterEach(async () => {
  vi.useRealTimers()
  await test.sql`delete from integrations`
  await test.close()
  await Promise.all([ops.close(), chat.close()])
})

function forward(seconds: number): void {
  clock.advance(seconds)
  vi.setSystemTime(clock.now())
}

function deliver(): Promise<DeliveredEvents> {
  return deliverDueEvents(test.framework)
}

/** What a receiver got that checks each signature, in the order of the events. */
function verified({ received }: HttpServer): { id: string; type: string; data: Record<string, unknown> }[] {
  return received
    .map(({ headers, body }) => {
      const { type, data } = new Webhook(SECRET).verify(body, headers as Record<string, string>) as never
      return { id: headers['webhook-id'] as string, type, data }
    })
    .sort((a, b) => Number(a.id.slice(4)) - Number(b.id.slice(4)))
}

const typesAt = (server: HttpServer): string[] => verified(server).map(({ type }) => type)

const eventRows = () =>
  test.sql`select id, name, delivered_at, outcomes from integration_events where name like 'Incident%' order by id`
const logRows = () =>
  test.sql`select status, error, external_id from integration_logs where operation = 'notification' order by id`

/** Everything that is stored or was said, as one text. */
async function everything(): Promise<string> {
  const tables = await test.sql<{ name: string }[]>`
    select table_name as name from information_schema.tables where table_name like 'integration%' and table_type = 'BASE TABLE'`
  const rows = await Promise.all(
    tables.map(({ name }) => test.sql`select to_jsonb(t)::text as row from ${test.sql(name)} t`),
  )
  return JSON.stringify([rows, test.lines])
}

async function fail(integrationId: number, times = 1): Promise<void> {
  const integration = await test.integrations.get(integrationId)
  for (let n = 0; n < times; n += 1) await integration.recordFailure('upstream')
}

describe('notification targets', () => {
  it('are told what an integration goes through, each what it asks for', async () => {
    const { id } = await makeIntegration(test, 'acme', { name: 'Shop' })
    await fail(id, 3)
    await (await test.integrations.get(id)).recordFailure('upstream')
    await deliver()
    expect(typesAt(ops)).toEqual([
      'incident.opened',
      'incident.escalated',
      'integration.disabled',
      'incident.escalated',
    ])
    expect(verified(ops)[0]?.data).toMatchObject({
      incident: { status: 'open', source: 'health', reason: 'health_degraded', peak_severity: 'degraded' },
      integration: { id, provider: 'acme', name: 'Shop' },
    })
    expect(verified(ops).at(-1)?.data).toMatchObject({ incident: { peak_severity: 'disabled' } })
    expect(chat.received.map(({ body }) => JSON.parse(body).text)).toEqual([
      expect.stringMatching(/^Incident \d+ opened: Shop \(acme, integration \d+\)\nSeverity: degraded\. /),
    ])
    expect(await deliver()).toMatchObject({ processed: 0, failed: 0, nextInSeconds: null })
    const logged = await logRows()
    expect(logged.map(({ status }) => status)).toEqual(Array(5).fill('success'))
    const stored = await everything()
    expect(stored).toContain('target:')
    for (const secret of ['PRIVATE', SECRET.slice(6)]) expect(stored).not.toContain(secret)
  })

  it('have nothing written for them of what they are never told of', async () => {
    await makeIntegration(test, 'acme')
    expect(await test.sql`select name from integration_events`).toEqual([])
  })

  it('get what they have missed once they are back; the others are not told again', async () => {
    ops.answer = (_request, response) => void response.writeHead(503).end()
    const { id } = await makeIntegration(test, 'acme')
    await fail(id)
    expect(await deliver()).toMatchObject({ processed: 0, failed: 1, nextInSeconds: 10 })
    // Due after 10, 20, 40 ... seconds.
    for (const seconds of [10, 20, 40, 80, 160, 320, 640]) {
      forward(seconds - 1)
      expect(await deliver()).toMatchObject({ processed: 0, failed: 0 })
      forward(1)
      expect(await deliver()).toMatchObject({ processed: 0, failed: 1 })
    }
    ops.answer = (_request, response) => void response.writeHead(202).end()
    forward(1_280)
    expect(await deliver()).toMatchObject({ processed: 1, failed: 0, nextInSeconds: null })
    expect(await deliver()).toMatchObject({ processed: 0, failed: 0 })

    expect(ops.received).toHaveLength(9)
    expect(new Set(ops.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(new Set(ops.received.map(({ body }) => body)).size).toBe(1)
    const last = ops.received.at(-1)
    // Signed anew, or it would be too old by now.
    expect(new Webhook(SECRET).verify(last?.body ?? '', last?.headers as Record<string, string>)).toMatchObject({
      type: 'incident.opened',
      timestamp: expect.any(String),
    })
    expect(chat.received).toHaveLength(1)
    const [row] = await eventRows()
    expect(row?.delivered_at).not.toBeNull()
    expect(
      Object.values(row?.outcomes)
        .map((each) => (each as { attempts: number }).attempts)
        .sort(),
    ).toEqual([1, 9])
  })

  it('that say 410 are given up at once, which a command shows, and tries again', async () => {
    ops.answer = (_request, response) => void response.writeHead(410).end()
    const { id } = await makeIntegration(test, 'acme')
    await fail(id)
    expect(await deliver()).toMatchObject({ processed: 1, nextInSeconds: null })
    expect(ops.received).toHaveLength(1)
    const [event] = await eventRows()
    expect(await logRows()).toContainEqual({
      status: 'failed',
      error: expect.stringContaining('410'),
      external_id: `evt_${event?.id}`,
    })

    const status = await runCommand(test.integrations, ['notifications', 'status', '--json'])
    expect(status.json()).toEqual({
      waiting: 0,
      retrying: 0,
      oldest_at: null,
      given_up: [
        {
          event_id: Number(event?.id),
          name: 'IncidentOpened',
          integration_id: id,
          listener: expect.stringMatching(/^target:[0-9a-f]{12}$/),
          error: expect.stringContaining('410'),
          created_at: expect.stringMatching(/Z$/),
        },
      ],
    })
    const shown = await runCommand(test.integrations, ['notifications', 'status'])
    expect(shown.out).toMatch(
      /^Waiting: 0, of which failed at least once: 0\.\nEvent\s+Name\s+Integration\s+Listener\s+Since\s+Error\n/,
    )

    ops.answer = (_request, response) => void response.end()
    const none = await runCommand(test.integrations, ['notifications', 'retry', '--event', '999999'])
    expect(none).toMatchObject({ exitCode: 1, err: expect.stringContaining('no stored event with id 999999') })
    const retried = await runCommand(test.integrations, ['notifications', 'retry', '--json'])
    expect(retried.json()).toEqual({ retried: 1, status: null })
    const noted = await test.sql`select target from integration_audit where action = 'notifications retry'`
    expect([...noted]).toEqual([{ target: 'notifications' }])
    await deliver()
    expect(ops.received).toHaveLength(2)
    expect(chat.received).toHaveLength(1)
    const after = await runCommand(test.integrations, ['notifications', 'status'])
    expect(after.out).toBe('Waiting: 0, of which failed at least once: 0.\nNothing was given up within seven days.\n')
  })

  it('that are tried again by hand say so in the life of their event, with who asked', async () => {
    ops.answer = (_request, response) => void response.writeHead(410).end()
    const { id } = await makeIntegration(test, 'acme')
    await fail(id)
    await deliver()
    const [event] = await eventRows()
    const words = ['notifications', 'retry', '--event', String(event?.id), '--json']
    expect((await runCommand(test.integrations, words)).json()).toEqual({ retried: 1, status: 'waiting' })
    const again = await runCommand(test.integrations, words.slice(0, -1))
    expect(again).toMatchObject({ exitCode: 0, out: expect.stringContaining('this event, which is waiting,') })
    const told = await runCommand(test.integrations, ['explain', `event:${event?.id}`, '--json'])
    expect(told.json()).toMatchObject({
      lines: expect.arrayContaining([
        expect.objectContaining({
          text: expect.stringContaining('notifications retry'),
          by: expect.stringMatching(/^cli:/),
        }),
      ]),
    })
  })

  it('that are down for too long are given up after ten tries, and told after days when somebody asks for it', async () => {
    ops.answer = (_request, response) => void response.writeHead(500).end()
    const { id } = await makeIntegration(test, 'acme')
    await fail(id)
    await deliver()
    for (let tries = 1; tries < 10; tries += 1) {
      forward(10 * 2 ** (tries - 1))
      await deliver()
    }
    expect(ops.received).toHaveLength(10)
    forward(7_200)
    expect(await deliver()).toMatchObject({ processed: 0, failed: 0, nextInSeconds: null })
    const logged = await logRows()
    expect(logged).toHaveLength(2)
    expect(logged).toContainEqual({
      status: 'failed',
      error: expect.stringContaining(`${ops.url}: it answered 500`),
      external_id: expect.stringMatching(/^evt_\d+$/),
    })
    expect(test.lines.filter(({ level }) => level === 'error')).toMatchObject([{ fields: { event: 'event.given_up' } }])

    ops.answer = (_request, response) => void response.end()
    const retryAfter = async (age: string) => {
      await test.sql`update integration_events set delivered_at = now() - ${age}::interval where delivered_at is not null`
      const ran = await runCommand(test.integrations, ['notifications', 'retry', '--json'])
      return ran.json() as { retried: number }
    }
    expect(await retryAfter('7 days 1 minute')).toMatchObject({ retried: 0 })
    expect(await retryAfter('6 days 23 hours')).toMatchObject({ retried: 1 })
    await deliver()
    expect(ops.received).toHaveLength(11)
    expect(new Set(ops.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(chat.received).toHaveLength(1)
  })

  it('that wait are shown with since when', async () => {
    ops.answer = (_request, response) => void response.writeHead(500).end()
    const { id } = await makeIntegration(test, 'acme')
    await fail(id)
    await deliver()
    const { json } = await runCommand(test.integrations, ['notifications', 'status', '--json'])
    expect(json()).toMatchObject({ waiting: 1, retrying: 1, oldest_at: expect.stringMatching(/Z$/), given_up: [] })
  })
})

describe('an incident that a person has', () => {
  /** Trouble and its ends, as the outbox holds them. */
  async function repeat(id: number): Promise<void> {
    const stale = test.sql.json({ secondsSinceSync: 7_200, intervalMinutes: 60 })
    await test.sql`
      insert into integration_events (integration_id, name, payload, due_at)
      values (${id}, 'SyncBecameStale', ${stale}, ${START}), (${id}, 'SyncStalenessRecovered', '{}', ${START})`
    await deliver()
  }
  const newTypes = async (act: () => Promise<unknown>): Promise<string[]> => {
    const before = ops.received.length
    await act()
    return verified({ received: ops.received.slice(before) } as HttpServer).map(({ type }) => type)
  }

  it.each(['acknowledged', 'snoozed'] as const)('%s is silent about repeats, until it gets worse', async (how) => {
    const { incidents } = test.integrations.admin
    const { id } = await makeIntegration(test, 'acme')
    await fail(id)
    await deliver()
    const [{ incident = 0 } = {}] = await test.sql<{ incident: number }[]>`
      select id::int as incident from integration_incidents`
    expect(await newTypes(() => repeat(id))).toEqual(['sync.stale', 'sync.recovered'])

    if (how === 'acknowledged') await incidents.acknowledge(incident, { by: 'ada' })
    else await incidents.snooze(incident, { by: 'ada', until: new Date(START.getTime() + 3_600_000) })
    expect(await newTypes(() => repeat(id))).toEqual(['sync.recovered'])
    // Not told is settled, too: nothing waits for the end of the silence.
    expect(await test.sql`select 1 from integration_events where delivered_at is null`).toHaveLength(0)
    // Another integration's trouble is none of it.
    const other = await makeIntegration(test, 'acme')
    expect(await newTypes(() => repeat(other.id))).toEqual(['sync.stale', 'sync.recovered'])

    await fail(id)
    expect(await newTypes(deliver)).toEqual(['incident.escalated'])
    expect(await newTypes(() => repeat(id))).toEqual(['sync.stale', 'sync.recovered'])
  })

  it.each(['snoozed before the event', 'snoozed after a first failed try'] as const)(
    '%s is never told of what was silent, though the event is delivered again later',
    async (when) => {
      const { id } = await makeIntegration(test, 'acme')
      await fail(id)
      await deliver()
      const [{ incident = 0 } = {}] = await test.sql<{ incident: number }[]>`
        select id::int as incident from integration_incidents`
      const snooze = () =>
        test.integrations.admin.incidents.snooze(incident, { by: 'ada', until: new Date(START.getTime() + 60_000) })
      test.integrations.on('SyncBecameStale', () => Promise.reject(new Error('down')), { queued: true, name: 'pager' })
      if (when === 'snoozed before the event') await snooze()
      else ops.answer = (_request, response) => void response.writeHead(500).end()
      await repeat(id)
      ops.answer = (_request, response) => void response.writeHead(204).end()
      await snooze()
      forward(10)
      expect(await newTypes(deliver)).not.toContain('sync.stale')
      const attempts = when === 'snoozed before the event' ? 0 : 1
      const [{ event = 0 } = {}] = await test.sql<{ event: number }[]>`
        select id::int as event from integration_events where name = 'SyncBecameStale'`
      expect((await test.integrations.admin.storedEvents.get(event)).deliveries).toMatchObject([
        { consumer: 'listener:pager', status: 'waiting' },
        { consumer: expect.stringMatching(/^target:/), status: 'silenced', attempts, dueAt: null, error: null },
      ])

      // The snooze is over, and the listener's tries go on.
      expect(
        await newTypes(async () => {
          forward(60)
          expect((await deliver()).failed).toBe(1)
        }),
      ).toEqual([])
    },
  )

  it('snoozed is told of again once the snooze is over', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await fail(id)
    await deliver()
    const [{ incident = 0 } = {}] = await test.sql<{ incident: number }[]>`
      select id::int as incident from integration_incidents`
    const until = new Date(START.getTime() + 60_000)
    await test.integrations.admin.incidents.snooze(incident, { by: 'ada', until })
    forward(59)
    expect(await newTypes(() => repeat(id))).toEqual(['sync.recovered'])
    forward(1)
    expect(await newTypes(() => repeat(id))).toEqual(['sync.stale', 'sync.recovered'])
  })
})
