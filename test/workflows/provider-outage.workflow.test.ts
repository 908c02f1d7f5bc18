/**
 * A provider that fails, and comes back: what is stored, what is written down to be told, and what a receiver that checks
 * signatures gets, line by line. Real calls, our workflows, real activities on real rows; skipped hours.
 */
import { randomBytes } from 'node:crypto'
import type { WorkflowHandle } from '@temporalio/client'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { createActivities } from '../../src/activities/index.ts'
import type { DurableEventName } from '../../src/events/durable-event-rules.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { SIGNAL, WORKFLOW } from '../../src/workflows/ids.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { HttpServer, Received } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import type { Scene, Stage } from './stage.ts'
import { openStage } from './stage.ts'

/**
 * What happens, the call's row, the integration (health, switch, failures in a row), its incidents with their worst severity,
 * the events that are written down, and what the receiver gets. `reset`: the connection is closed without an answer.
 */
const STORY = `
call 200   | 200          | healthy on 0   | none                         | none                                                            | nothing
call 500   | 500 upstream | healthy on 1   | none                         | none                                                            | nothing
call 404   | 404 client   | healthy on 1   | none                         | none                                                            | nothing
call 503   | 503 upstream | degraded on 2  | open degraded                | IntegrationHealthChanged IncidentOpened                         | incident.opened
call reset | upstream     | failing on 3   | open failing                 | IntegrationHealthChanged IncidentEscalated                      | incident.escalated
call 500   | 500 upstream | failing on 4   | open failing                 | none                                                            | nothing
call 500   | 500 upstream | disabled off 5 | open disabled                | IntegrationDisabled IntegrationHealthChanged IncidentEscalated  | integration.disabled incident.escalated
call 500   | 500 upstream | disabled off 6 | open disabled                | none                                                            | nothing
call 200   | 200          | disabled off 0 | open disabled                | none                                                            | nothing
enable     | none         | healthy on 0   | closed disabled              | IntegrationHealthChanged IncidentClosed                         | incident.closed
call 500   | 500 upstream | healthy on 1   | closed disabled              | none                                                            | nothing
call 500   | 500 upstream | degraded on 2  | closed disabled, open degraded   | IntegrationHealthChanged IncidentOpened                     | incident.opened
call 200   | 200          | healthy on 0   | closed disabled, closed degraded | IntegrationHealthChanged IncidentClosed                     | incident.closed
`
const LINES = STORY.trim()
  .split('\n')
  .map((line) => line.split('|').map((cell) => cell.trim()))

const NAMES = [
  'IntegrationHealthChanged',
  'IntegrationDisabled',
  'IncidentOpened',
  'IncidentEscalated',
  'IncidentClosed',
] as const satisfies DurableEventName[]

/** Five tries: at once, and after 10, 30, 70 and 150 s. The last ones, of an hour, are in event-outbox.workflow.test.ts. */
const OUTAGE_MS = 170_000
/** Longer than the longest wait after these. */
const NEXT_TRY_MS = 200_000
/** Between a moment of the server's and one of ours, on a busy machine. */
const SLACK_MS = 60_000
const SECRET = `whsec_${randomBytes(32).toString('base64')}`

let stage: Stage
let database: TestDatabase
beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
})
afterAll(async () => {
  await stage?.close()
  await database?.drop()
})

/** A host in the server's time with one integration, its provider and its receiver. */
class Outage {
  readonly test: TestIntegrations
  readonly #provider: HttpServer
  readonly receiver: HttpServer
  /** Events that the queued listener heard, and when. */
  readonly heard: { readonly name: string; readonly atMs: number }[] = []
  integration!: Integration
  /** `200`, or `reset`. */
  #answer = '200'
  #nowMs = 0
  #lastEventId = 0
  /** Told of since the last line, each workflow once: as a process does that is told ten things at a time. */
  readonly #untold = new Map<string, () => Promise<unknown>>()
  #scene: Scene | undefined

  constructor(provider: HttpServer, receiver: HttpServer) {
    this.#provider = provider
    this.receiver = receiver
    provider.answer = (request, response) =>
      this.#answer === 'reset' ? request.socket.destroy() : response.writeHead(Number(this.#answer)).end()
    this.test = testIntegrations(database.url, {
      clock: { now: () => new Date(this.#nowMs) },
      providers: { shop: {} },
      config: {
        health: { degraded_after: 2, failing_after: 3, disabled_after: 5 },
        // It would refuse the later calls; test/calls/call-events.pg.test.ts has its story.
        circuit_breaker: { enabled: false },
        notifications: { targets: [{ url: receiver.url, secret: SECRET, allow_private: true }] },
      },
    })
    for (const name of NAMES)
      this.test.integrations.on(name, () => void this.heard.push({ name, atMs: this.#nowMs }), {
        queued: true,
        name: 'audit',
      })
    Object.assign(this.test.framework.workflows, {
      wakeOutbox: () => this.#untold.set('outbox', () => this.#tell(WORKFLOW.eventOutbox, {}, SIGNAL.arrived)),
      followIncident: (integrationId: number, change: 'escalate' | 'recovered') =>
        this.#untold.set(change, () => this.#tell(WORKFLOW.incident, { integrationId }, SIGNAL[change])),
    })
  }

  get nowMs(): number {
    return this.#nowMs
  }

  /** The story is played while a worker with our workflows and activities lives. */
  async play(story: () => Promise<void>): Promise<void> {
    await this.#readClock()
    this.integration = await makeIntegration(this.test, 'shop')
    const real = createActivities(this.test.framework)
    const inTime =
      <Input, Output>(activity: (input: Input) => Promise<Output>) =>
      async (input: Input): Promise<Output> => {
        await this.#readClock()
        return activity(input)
      }
    const activities: Partial<Activities> = {
      pumpEvents: inTime(real.pumpEvents),
      followIncident: inTime(real.followIncident),
      closeIncidentWhenWell: inTime(real.closeIncidentWhenWell),
    }
    await stage.play(activities, async (scene) => {
      this.#scene = scene
      const followers = [WORKFLOW.incident, WORKFLOW.eventOutbox].map((type) => this.follower(type))
      try {
        await story()
        // One that is terminated would hold up the server's time for the next story.
        for (const follower of followers) await follower.result()
      } catch (error) {
        for (const follower of followers) await follower.terminate().catch(() => {})
        throw error
      }
    })
  }

  async #readClock(): Promise<void> {
    this.#nowMs = await stage.env.currentTimeMs()
  }

  #tell(type: string, input: object, signal: string): Promise<unknown> {
    const { client, taskQueue } = this.#scene as Scene
    return client.signalWithStart(type, {
      workflowId: `${taskQueue}:${type}`,
      taskQueue,
      args: [input],
      signal,
      signalArgs: [],
    })
  }

  follower(type: string): WorkflowHandle {
    const { client, taskQueue } = this.#scene as Scene
    return client.getHandle(`${taskQueue}:${type}`)
  }

  /** Does what a line of the story says; ends once the workflows have been told. */
  async act(what: string): Promise<void> {
    await this.#readClock()
    const [verb, answer = ''] = what.split(' ')
    if (verb === 'enable') await this.integration.enable()
    else {
      this.#answer = answer
      const handle = await this.test.integrations.get(this.integration.id)
      const call = handle.request('orders', 'GET', ({ signal }) => fetch(this.#provider.url, { signal }), {
        attempts: 1,
      })
      expect(await call.then(String, (error: { code: unknown }) => String(error.code))).not.toBe('invalid_argument')
    }
    for (const tell of this.#untold.values()) await tell()
    this.#untold.clear()
  }

  /** The cells that a line of the story has for what is stored. */
  async stored(isCall: boolean): Promise<string[]> {
    const { sql } = this.test
    const { id } = this.integration
    const [request] = await sql`
      select status_code, failure_class from integration_requests where integration_id = ${id} order by id desc limit 1`
    const [row] = await sql`select health_status, is_active, consecutive_failures from integrations where id = ${id}`
    const incidents = await sql`
      select status, peak_severity from integration_incidents where integration_id = ${id} order by id`
    const events = await sql<{ id: string; name: string }[]>`
      select id, name from integration_events where integration_id = ${id} and id > ${this.#lastEventId} order by id`
    this.#lastEventId = Number(events.at(-1)?.id ?? this.#lastEventId)
    return [
      isCall ? [request?.status_code, request?.failure_class].filter((each) => each !== null).join(' ') : 'none',
      `${row?.health_status} ${row?.is_active ? 'on' : 'off'} ${row?.consecutive_failures}`,
      incidents.map(({ status, peak_severity }) => `${status} ${peak_severity}`).join(', ') || 'none',
      events.map(({ name }) => name).join(' ') || 'none',
    ]
  }

  async undelivered(): Promise<number> {
    const [row] = await this.test.sql`
      select count(*)::int as count from integration_events
      where integration_id = ${this.integration.id} and delivered_at is null`
    return row?.count
  }
}

/** What a receiver reads of a delivery whose signature, made by another's library, is right. */
function checked({ headers, body }: Received, nowMs: number): { id: string; type: string; body: string } {
  const id = String(headers['webhook-id'])
  const sentAtMs = Number(headers['webhook-timestamp']) * 1_000
  // Its `verify` would judge the time by the machine's clock, which has not skipped what the server's has.
  expect(headers['webhook-signature']).toBe(new Webhook(SECRET).sign(id, new Date(sentAtMs), body))
  expect(Math.abs(nowMs - sentAtMs)).toBeLessThan(SLACK_MS)
  return { id, body, type: (JSON.parse(body) as { type: string }).type }
}

const byEvent = (a: { id: string }, b: { id: string }): number => Number(a.id.slice(4)) - Number(b.id.slice(4))

let outage: Outage
beforeEach(async (context) => {
  const servers = await Promise.all([startHttpServer(), startHttpServer()])
  outage = new Outage(...servers)
  context.onTestFinished(async () => {
    await outage.test.close()
    await Promise.all(servers.map((server) => server.close()))
  })
})

it('is told line by line: calls, health, incident, events, and each notification once', async () => {
  const seen: string[][] = []
  await outage.play(async () => {
    for (const [what = ''] of LINES) {
      await outage.act(what)
      await expect.poll(() => outage.undelivered(), { timeout: 20_000, interval: 20 }).toBe(0)
      const got = outage.receiver.received.splice(0).map((delivery) => checked(delivery, outage.nowMs))
      const types = got.sort(byEvent).map(({ type }) => type)
      seen.push([what, ...(await outage.stored(what.startsWith('call'))), types.join(' ') || 'nothing'])
    }
    expect(seen).toEqual(LINES)
    expect(await outage.follower(WORKFLOW.incident).result()).toMatchObject({
      status: 'closed',
      peakSeverity: 'degraded',
    })
  })
  const events = LINES.flatMap(([, , , , names = '']) => (names === 'none' ? [] : names.split(' ')))
  expect(outage.heard.map(({ name }) => name).sort()).toEqual(events.sort())
})

it('is told a receiver that is down for three minutes once it is back: each notification, and twice only where its answer was lost', async () => {
  const told = LINES.flatMap(([, , , , , types = '']) => (types === 'nothing' ? [] : types.split(' ')))
  const tries = new Map<string, Set<string>>()
  const taken: { id: string; type: string }[] = []
  let isDown = false
  outage.receiver.answer = (request, response) => {
    const delivery = checked(outage.receiver.received.at(-1) as Received, outage.nowMs)
    tries.set(delivery.id, (tries.get(delivery.id) ?? new Set()).add(delivery.body))
    if (isDown) return void response.writeHead(503).end()
    taken.push(delivery)
    if (taken.length > 1) return void response.end()
    // Its last breath: it has the message, and nobody knows.
    isDown = true
    request.socket.destroy()
  }
  await outage.play(async () => {
    const beganAtMs = await stage.env.currentTimeMs()
    for (const [what = ''] of LINES) await outage.act(what)
    await stage.env.sleep(OUTAGE_MS)
    expect(taken).toHaveLength(1)
    // Who is not down has had everything at once.
    expect(outage.heard.every(({ atMs }) => atMs - beganAtMs < SLACK_MS)).toBe(true)
    expect(await outage.undelivered()).toBe(told.length)

    isDown = false
    await stage.env.sleep(2 * NEXT_TRY_MS)
    expect(await outage.undelivered()).toBe(0)
  })
  const [lost] = taken
  const once = new Map(taken.map((each) => [each.id, each]))
  expect([...once.values()].sort(byEvent).map(({ type }) => type)).toEqual(told)
  expect(taken.filter(({ id }) => id === lost?.id)).toHaveLength(2)
  expect(taken).toHaveLength(told.length + 1)
  // The same message under the same id at each try: by it a receiver knows what it has.
  expect([...tries.values()].map(({ size }) => size)).toEqual(told.map(() => 1))
  const events = LINES.flatMap(([, , , , names = '']) => (names === 'none' ? [] : names.split(' ')))
  expect(outage.heard).toHaveLength(events.length)
})
