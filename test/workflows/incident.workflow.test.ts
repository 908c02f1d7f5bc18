/** An incident's life in days: our workflow, real activities on real rows, and a worker that is another one at each step. */
import type { WorkflowHandle } from '@temporalio/client'
import { Worker } from '@temporalio/worker'
import type { SignalDefinition } from '@temporalio/workflow'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { createActivities } from '../../src/activities/index.ts'
import { CLOSED_BREAKER } from '../../src/calls/admission/state-rules.ts'
import { rewakeIncidents } from '../../src/incidents/follow.ts'
import type { IncidentInput, IncidentSight } from '../../src/incidents/incident-jobs.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import type { IncidentState } from '../../src/workflows/messages.ts'
import { escalate, incidentState, recovered } from '../../src/workflows/messages.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, openStage, SHUTDOWN_FORCE_TIME } from './stage.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Between a timer's end and the row, on a busy machine; skipped time stands still meanwhile. */
const SLACK_MS = 60_000

let stage: Stage
let database: TestDatabase
beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
})
afterAll(async () => {
  await stage?.close()
  await database?.drop()
})

type Follower = WorkflowHandle<(input: IncidentInput) => Promise<IncidentSight | null>>

/** A host in the server's time, with one integration; its signals go to our workflow as they do in a process. */
class Life {
  readonly test: TestIntegrations
  readonly taskQueue: string
  readonly workflowId: string
  /** Until it is false, signals are lost: their process has died. */
  isDeaf = false
  integration!: Integration
  readonly #activities: Partial<Activities>
  #nowMs = 0
  #signals: Promise<unknown> = Promise.resolve()

  constructor(name: string) {
    this.taskQueue = `incidents-${name}`
    this.workflowId = `${this.taskQueue}:incident:7`
    this.test = testIntegrations(database.url, {
      clock: { now: () => new Date(this.#nowMs) },
      providers: { plain: {} },
      config: { health: { degraded_after: 1, failing_after: 2, disabled_after: 3 } },
    })
    Object.assign(this.test.framework.workflows, {
      followIncident: (integrationId: number, change: 'escalate' | 'recovered') => {
        // Incidents of other tests are theirs. One signal after the other: of two at once that would start the workflow, this
        // server refuses one.
        if (this.isDeaf || integrationId !== this.integration.id) return
        this.#signals = this.#signals.then(() => this.#signal(integrationId, change))
      },
    })
    const real = createActivities(this.test.framework)
    this.#activities = {
      followIncident: async (input) => {
        await this.#readClock()
        return real.followIncident(input)
      },
      closeIncidentWhenWell: async (input) => {
        await this.#readClock()
        return real.closeIncidentWhenWell(input)
      },
    }
  }

  async begin(): Promise<void> {
    await this.#readClock()
    this.integration = await makeIntegration(this.test, 'plain')
  }

  async #readClock(): Promise<void> {
    this.#nowMs = await stage.env.currentTimeMs()
  }

  #signal(integrationId: number, change: 'escalate' | 'recovered'): Promise<unknown> {
    return stage.env.client.workflow.signalWithStart(WORKFLOW.incident, {
      workflowId: this.workflowId,
      taskQueue: this.taskQueue,
      args: [{ integrationId }],
      signal: { escalate, recovered }[change],
      signalArgs: [],
    })
  }

  /** Something happens, at the server's time, while no worker lives. */
  async happen(what: () => Promise<unknown>): Promise<void> {
    await this.#readClock()
    await what()
    await this.#signals
  }

  /** A worker of its own comes, does what is due, and goes. */
  async work<Result>(until: (follower: Follower) => Promise<Result>): Promise<Result> {
    const worker = await Worker.create({
      connection: stage.env.nativeConnection,
      taskQueue: this.taskQueue,
      workflowBundle: stage.bundle,
      activities: this.#activities,
      // Nothing is kept from one task to the next, so no task waits for a worker that has gone.
      maxCachedWorkflows: 0,
      shutdownGraceTime: 0,
      shutdownForceTime: SHUTDOWN_FORCE_TIME,
    })
    return worker.runUntil(() => until(this.follower()))
  }

  follower(): Follower {
    return stage.env.client.workflow.getHandle(this.workflowId)
  }

  /** A worker comes until the workflow has seen this. */
  async seen(expected: Partial<IncidentSight>): Promise<IncidentState> {
    return this.work((follower) => untilSeen(follower, expected))
  }

  async incidents() {
    const rows = await this.test.sql<IncidentTimes[]>`
      select status, reason, peak_severity, opened_at, closed_at, followed_at from integration_incidents
      where integration_id = ${this.integration.id} order by id`
    return [...rows]
  }

  async end(): Promise<void> {
    await this.follower()
      .terminate()
      .catch(() => {})
    await this.test.close()
  }
}

interface IncidentTimes {
  readonly status: string
  readonly reason: string
  readonly peak_severity: string
  readonly opened_at: Date
  readonly closed_at: Date | null
  readonly followed_at: Date | null
}

async function untilSeen(follower: Follower, expected: Partial<IncidentSight>): Promise<IncidentState> {
  const giveUpAt = performance.now() + SOON.timeout
  for (;;) {
    const state = await follower.query(incidentState)
    const { incident } = state
    if (Object.entries(expected).every(([key, value]) => incident?.[key as keyof IncidentSight] === value)) return state
    if (performance.now() > giveUpAt) throw new Error(`not seen; it was ${JSON.stringify(state)}`)
  }
}

let life: Life
let lives = 0
beforeEach(async (context) => {
  lives += 1
  life = new Life(String(lives))
  context.onTestFinished(() => life.end())
  await life.begin()
})

const fail = () => life.integration.recordFailure('upstream')
const setBreaker = (state: 'open' | 'closed') => life.test.sql`
  insert into integration_cache (key, value)
  values (${`integrations:integration:${life.integration.id}:calls`}, ${life.test.sql.json({
    breaker: { ...CLOSED_BREAKER, state },
  })})
  on conflict (key) do update set value = excluded.value`

describe('an incident', () => {
  it('opens, escalates twice, ends with the recovery, and comes again, with another worker at each step', async () => {
    await life.happen(fail)
    const opened = await life.seen({ status: 'open', peakSeverity: 'degraded' })
    expect(opened).toMatchObject({ phase: 'following', signals: 0 })

    // It happens while no worker lives: the next one finds the signal.
    await stage.env.sleep(DAY_MS / 2)
    await life.happen(fail)
    expect(await life.seen({ peakSeverity: 'failing' })).toMatchObject({ signals: 1 })
    await life.happen(fail)
    expect(await life.seen({ peakSeverity: 'disabled' })).toMatchObject({ phase: 'following', signals: 2 })

    await life.happen(() => life.integration.enable())
    const first = await life.work((follower) => follower.result())
    expect(first).toMatchObject({ status: 'closed', peakSeverity: 'disabled', autoCloseInSeconds: null })

    await stage.env.sleep(DAY_MS)
    await life.happen(fail)
    const again = await life.seen({ status: 'open', peakSeverity: 'degraded' })
    expect(again.incident?.incidentId).not.toBe(first?.incidentId)
    expect(await life.incidents()).toMatchObject([
      { status: 'closed', reason: 'health_degraded', peak_severity: 'disabled' },
      { status: 'open', reason: 'health_degraded', peak_severity: 'degraded' },
    ])
  })

  it('ends by itself after seven days of an integration that is well, and not before', async () => {
    await life.happen(fail)
    await life.seen({ status: 'open' })
    // Well again, and whoever saw it did not end the incident.
    await setIntegration(life.test, life.integration.id, { healthStatus: 'healthy', consecutiveFailures: 0 })
    await life.work(() => stage.env.sleep(7 * DAY_MS - HOUR_MS))
    expect(await life.incidents()).toMatchObject([{ status: 'open' }])
    expect(await life.work((follower) => follower.result())).toMatchObject({ status: 'closed' })
    const [incident] = await life.incidents()
    const ageMs = (incident?.closed_at?.getTime() ?? Number.NaN) - (incident?.opened_at.getTime() ?? Number.NaN)
    expect(ageMs).toBeGreaterThan(7 * DAY_MS)
    expect(ageMs).toBeLessThan(7 * DAY_MS + SLACK_MS)
  })

  it('goes on past the seven days while health, staleness or breaker is not well, and is asked for daily', async () => {
    const { id } = life.integration
    const daysLater = (days: number) => life.work(() => stage.env.sleep(days * DAY_MS))
    const isFollowedDaily = async () => {
      const [incident] = await life.incidents()
      const nowMs = await stage.env.currentTimeMs()
      expect(incident?.status).toBe('open')
      expect(nowMs - (incident?.followed_at?.getTime() ?? 0)).toBeLessThan(DAY_MS + SLACK_MS)
    }
    await life.happen(fail)
    await life.seen({ status: 'open' })
    await daysLater(3)
    await isFollowedDaily()
    await daysLater(5)
    await isFollowedDaily()

    await setIntegration(life.test, id, { healthStatus: 'healthy', syncStaleAlertedAt: new Date() })
    await daysLater(1)
    await isFollowedDaily()

    await setIntegration(life.test, id, { syncStaleAlertedAt: null })
    await setBreaker('open')
    await daysLater(1)
    await isFollowedDaily()

    await setBreaker('closed')
    expect(await life.work((follower) => follower.result())).toMatchObject({ status: 'closed' })
    const [incident] = await life.incidents()
    const ageMs = (incident?.closed_at?.getTime() ?? Number.NaN) - (incident?.opened_at.getTime() ?? Number.NaN)
    expect(ageMs).toBeGreaterThan(10 * DAY_MS)
    expect(ageMs).toBeLessThan(11 * DAY_MS + SLACK_MS)
  })

  it('is followed again when what should have told its workflow died, and when its workflow was terminated', async () => {
    life.isDeaf = true
    await life.happen(fail)
    life.isDeaf = false
    await life.happen(() => rewakeIncidents(life.test.framework))
    await life.seen({ status: 'open' })
    await life.follower().terminate()

    await stage.env.sleep(27 * HOUR_MS)
    await life.happen(() => rewakeIncidents(life.test.framework))
    await life.seen({ status: 'open' })
  })

  it('ends its workflow at the next look when its integration is gone', async () => {
    await life.happen(fail)
    await life.seen({ status: 'open' })
    await life.happen(() => life.test.integrations.delete(life.integration.id))
    expect(await life.work((follower) => follower.result())).toBeNull()
  })
})

const SIGHT: IncidentSight = {
  incidentId: 1,
  status: 'open',
  source: 'health',
  reason: 'health_degraded',
  peakSeverity: 'degraded',
  openedAt: '2031-05-01T12:00:00.000Z',
  lastErrorAt: null,
  closedAt: null,
  autoCloseInSeconds: 7 * 86_400,
}
const CLOSED: IncidentSight = { ...SIGHT, status: 'closed', closedAt: SIGHT.openedAt, autoCloseInSeconds: null }

function tell({ client, ...options }: Scene, signal: SignalDefinition = escalate) {
  return client.signalWithStart(WORKFLOW.incident, {
    ...options,
    args: [{ integrationId: 7 }],
    signal,
    signalArgs: [],
  })
}

describe('the workflow of an incident', () => {
  it('goes on in the same life when it is told while it reads that the incident is closed', async () => {
    const sights = [CLOSED, { ...SIGHT, incidentId: 2 }, { ...CLOSED, incidentId: 2 }]
    let scene: Scene | undefined
    let looks = 0
    const followIncident: Activities['followIncident'] = async () => {
      looks += 1
      // Too late for the row that this look has read.
      if (looks === 1) await tell(scene as Scene)
      return sights[looks - 1] ?? null
    }
    await stage.play({ followIncident }, async (played) => {
      scene = played
      const first = await tell(played)
      const handle = played.client.getHandle<(input: IncidentInput) => Promise<IncidentSight | null>>(played.workflowId)
      const state = await untilSeen(handle, { incidentId: 2, status: 'open' })
      expect(state).toMatchObject({ phase: 'following', signals: 0 })
      expect((await tell(played, recovered)).signaledRunId).toBe(first.signaledRunId)
      expect(await first.result()).toEqual(sights[2])
    })
    expect(looks).toBe(3)
  })

  it('answers a burst of signals with few looks', async () => {
    const all = occasion()
    let looks = 0
    const followIncident: Activities['followIncident'] = async () => {
      looks += 1
      // While it looks, the others come.
      await all.happened
      return looks === 1 ? SIGHT : CLOSED
    }
    await stage.play({ followIncident }, async (scene) => {
      await tell(scene)
      await Promise.all(Array.from({ length: 100 }, () => tell(scene)))
      const last = await tell(scene, recovered)
      all.happen()
      await last.result()
      expect(await countEvents(last, 'workflowExecutionSignaledEventAttributes')).toBe(102)
      expect(await countEvents(last, 'activityTaskScheduledEventAttributes')).toBe(2)
    })
  })

  it('waits for the database as long as it takes', async () => {
    let tries = 0
    const followIncident: Activities['followIncident'] = async () => {
      tries += 1
      if (tries < 12) throw new Error('the connection was refused')
      return CLOSED
    }
    await stage.play({ followIncident }, async (scene) => {
      expect(await (await tell(scene)).result()).toEqual(CLOSED)
    })
    expect(tries).toBe(12)
  })
})
