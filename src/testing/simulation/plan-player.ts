/** One plan from its first step to the invariants. */
import type { Integration } from '../../providers/integration.ts'
import type { ManualClock } from '../manual-clock.ts'
import type { Perform } from '../sync-in-process.ts'
import { playSync, syncWork, WorkerLost } from '../sync-in-process.ts'
import { SimulationStuck, SyncDidNotEnd } from '../testing-errors.ts'
import type { Transport } from '../transport.ts'
import type { LivingRuns } from '../without-temporal.ts'
import { deliverNextEvent, rescueEvents } from './events-in-turn.ts'
import type { HostProcess } from './host-process.ts'
import { DIED } from './host-process.ts'
import type { Fault, Plan, RunStep } from './plan.ts'
import type { Outside, Scenario } from './scenario.ts'
import { Story } from './story.ts'
import { openWebhooks, unfinishedWork } from './unfinished-work.ts'
import type { VirtualTime } from './virtual-time.ts'
import { inRealTime } from './virtual-time.ts'
import { Wire } from './wire.ts'

export interface BrokenInvariant {
  readonly name: string
  readonly message: string
  readonly error: unknown
}

export interface Played {
  /** Empty: all held. */
  readonly broken: readonly BrokenInvariant[]
  readonly story: readonly string[]
  /** Of the story, which ends with what was broken: the same for the same plan. */
  readonly hash: string
}

interface Stage {
  readonly clock: ManualClock
  readonly time: VirtualTime
  readonly livingRuns: LivingRuns
  readonly streams: readonly (string | null)[]
  /** All that a plan can run. */
  readonly runs: readonly string[]
  start(transport: Transport): Promise<HostProcess>
}

/** What must hold of any host, unless its scenario says `mayFail`. */
const NOTHING_FAILED = 'nothing is left undone'
/** Passes before each round without faults. */
const CALM_SECONDS = 3_600
/** Each does all the work that is left. */
const CALM_ROUNDS = 4
/** Temporal tries a run's activities without an end. Here each fault meets one try, so five show a fault that stays. */
const ACTIVITY_TRIES = 5
const ACTIVITY_WAIT_SECONDS = 10
/** Looks for open webhooks within one step: handling one may start another. */
const WEBHOOK_PASSES = 20

export class Play<Model extends Outside> {
  readonly #scenario: Scenario<Model>
  readonly #plan: Plan
  readonly #stage: Stage
  readonly #story: Story
  readonly #wire: Wire
  #process: HostProcess | null = null
  #integrationId = 0
  /** Of the step that is played. */
  #faults: readonly Fault[] = []
  #activities = 0
  /** Why a stream's last run did not end, by the run's name. */
  readonly #unendedSyncs = new Map<string, string>()
  /** Why a job failed the last time, by its name. */
  readonly #failedJobs = new Map<string, string>()

  constructor(scenario: Scenario<Model>, plan: Plan, stage: Stage) {
    this.#scenario = scenario
    this.#plan = plan
    this.#stage = stage
    this.#story = new Story(stage.clock)
    this.#wire = new Wire((world) => scenario.outside(world), stage.clock, plan.skewSeconds ?? 0, this.#story)
  }

  /** @param patienceMs of real time @throws SimulationStuck; the model's own error */
  async run(patienceMs: number): Promise<Played> {
    let timer: NodeJS.Timeout | undefined
    const stuck = new Promise<never>((_, reject) => {
      const giveUp = (): void => reject(new SimulationStuck(patienceMs / 1_000, this.#story.lines))
      // Not a timer of the host's: those are stopped where its process dies.
      timer = inRealTime(() => setTimeout(giveUp, patienceMs))
    })
    try {
      return await Promise.race([this.#play(), stuck])
    } finally {
      clearTimeout(timer)
      await this.#process?.close()
    }
  }

  async #play(): Promise<Played> {
    const { kit } = await this.#living()
    this.#integrationId = (await kit.integrations.create(this.#scenario.integration)).id
    for (const step of this.#plan.steps) {
      this.#stage.clock.advance(step.afterSeconds ?? 0)
      await this.#arrivals()
      if ('change' in step) await this.#wire.change(step)
      else await this.#runStep(step)
      this.#throwMistake()
    }
    const undone = await this.#calmDown()
    const broken = await this.#broken(this.#scenario.mayFail === true ? [] : undone)
    for (const { name } of broken) this.#story.add(`broken: ${name}`)
    return { broken, story: this.#story.lines, hash: this.#story.hash }
  }

  /** The host's process, which is started again where it has died. */
  async #living(): Promise<HostProcess> {
    if (this.#process !== null && !this.#process.isDead) return this.#process
    if (this.#process !== null) {
      this.#stage.time.stopTimers()
      this.#story.add('the host starts again')
    }
    let process: HostProcess | null = null
    const transport = this.#wire.transportOf(() => process as unknown as HostProcess)
    process = await this.#stage.start(transport)
    this.#process = process
    this.#scenario.register?.(process.host)
    return process
  }

  async #integration({ kit }: HostProcess): Promise<Integration> {
    return kit.integrations.get(this.#integrationId)
  }

  /** Deliveries that are due. */
  async #arrivals(): Promise<void> {
    for (const delivery of this.#wire.takeDue()) {
      const process = await this.#living()
      const { status } = await process.kit.deliver(delivery.make(), await this.#integration(process))
      this.#story.add(`delivery ${delivery.number} arrives → ${status}`)
      if (status >= 300) this.#wire.putBack(delivery)
    }
  }

  async #runStep({ run, newestFirst, faults = [] }: RunStep): Promise<void> {
    const process = await this.#living()
    this.#wire.meet(faults)
    this.#faults = faults
    this.#activities = 0
    for (const fault of faults) {
      if ('crashAfter' in fault) process.diesAfter({ host: fault.crashAfter })
      if ('crashAfterStatement' in fault) process.diesAfter({ statements: fault.crashAfterStatement })
    }
    await this.#do(run, newestFirst === true)
    this.#wire.meet([])
    this.#faults = []
    if (this.#process === process) process.diesAfter({})
  }

  async #do(run: string, newestFirst = false): Promise<void> {
    if (run === 'webhooks') await this.#handleWebhooks(newestFirst)
    else if (run === 'sync') for (const stream of this.#stage.streams) await this.#sync(stream)
    else if (run === 'events') await this.#deliverEvents()
    else await this.#runJob(run)
  }

  /** Works in the process that lives now. @returns DIED where the process died meanwhile */
  async #inProcess<T>(work: (process: HostProcess) => Promise<T>): Promise<T | typeof DIED> {
    const process = await this.#living()
    const result = await process.run(() => work(process))
    if (result === DIED) this.#story.add('the host dies')
    return result
  }

  /** What recovery takes up, and what is pending: one at a time, each in its turn. */
  async #handleWebhooks(newestFirst: boolean): Promise<void> {
    const tried = new Set<number>()
    let isRecovered = false
    for (let pass = 0; pass < WEBHOOK_PASSES; pass += 1) {
      const open = await this.#inProcess(({ framework }) => openWebhooks(framework))
      if (open === DIED) return
      const { pending, others } = open
      const jobs = (await this.#living()).kit.started.startedWebhookJobs.splice(0)
      if (others && !isRecovered) {
        isRecovered = true
        if ((await this.#inProcess(({ kit }) => kit.integrations.webhooks.recover())) === DIED) return
        continue
      }
      const inputs = [...jobs, ...pending.map((webhookId) => ({ webhookId }))].filter(
        ({ webhookId }, at, all) =>
          !tried.has(webhookId) && all.findIndex((other) => other.webhookId === webhookId) === at,
      )
      if (inputs.length === 0) return
      for (const input of newestFirst ? inputs.reverse() : inputs) {
        const result = await this.#inProcess(({ framework }) =>
          framework.workflows.runProcessWebhook(input, this.#integrationId),
        )
        if (result === DIED) return
        const outcome = result === 'already running' ? result : result.outcome
        this.#story.add(`webhook ${input.webhookId}: ${outcome}`)
        // One whose turn has not come is asked for again after the others.
        if (outcome !== 'not claimed') tried.add(input.webhookId)
      }
    }
  }

  /** One at a time. A listener that fails is told again after its wait. */
  async #deliverEvents(): Promise<void> {
    if ((await this.#inProcess(({ framework }) => rescueEvents(framework))) === DIED) return
    for (;;) {
      const told = await this.#inProcess(({ framework }) => deliverNextEvent(framework))
      if (told === null || told === DIED) return
      this.#story.add(told)
    }
  }

  async #sync(stream: string | null): Promise<void> {
    const of = { integrationId: this.#integrationId, ...(stream === null ? {} : { stream }) }
    const name = stream === null ? 'sync' : `sync of ${stream}`
    try {
      const { livingRuns, clock } = this.#stage
      // The run that a host has asked for is this one.
      livingRuns.take(of)
      await livingRuns.during(of, () => playSync(this.#perform, clock, of, { batchRows: 1 }))
      this.#story.add(`${name}: done`)
      this.#unendedSyncs.delete(name)
    } catch (error) {
      if (!(error instanceof SyncDidNotEnd || error instanceof ActivityFailed)) throw error
      const reason = error instanceof SyncDidNotEnd ? error.reason : error.message
      this.#story.add(`${name}: ${reason}`)
      this.#unendedSyncs.set(name, reason)
    }
  }

  /** As Temporal performs an activity: another worker tries again what one has begun. */
  readonly #perform: Perform = async (work, { once = false } = {}) => {
    for (let attempt = 1; ; attempt += 1) {
      let result: Awaited<ReturnType<typeof work>> | typeof DIED
      try {
        result = await this.#inProcess(({ framework }) => work(syncWork(framework)))
      } catch (error) {
        if (once) throw error
        if (attempt >= ACTIVITY_TRIES || (error as { nonRetryable?: boolean }).nonRetryable === true)
          throw new ActivityFailed(error)
        this.#stage.clock.advance(ACTIVITY_WAIT_SECONDS * attempt)
        continue
      }
      if (result !== DIED) {
        await this.#betweenActivities()
        return result
      }
      if (once) throw new WorkerLost()
    }
  }

  /** What the inbox does while a sync runs. */
  async #betweenActivities(): Promise<void> {
    this.#activities += 1
    const isNow = (fault: Fault): boolean => 'afterActivity' in fault && fault.afterActivity === this.#activities
    if (!this.#faults.some(isNow)) return
    await this.#arrivals()
    await this.#handleWebhooks(false)
  }

  async #runJob(name: string): Promise<void> {
    const job = this.#scenario.jobs?.[name]
    if (job === undefined) throw new Error(`the plan runs "${name}", and the scenario has no such job`)
    try {
      const result = await this.#inProcess(async (process) => job(process.host, await this.#integration(process)))
      if (result === DIED) return
      this.#story.add(`job ${name}: done`)
      this.#failedJobs.delete(name)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#story.add(`job ${name}: ${reason}`)
      this.#failedJobs.set(name, reason)
    }
  }

  /** No more faults: what is under way arrives, and all that is left is done. @returns what could not be done */
  async #calmDown(): Promise<readonly string[]> {
    this.#story.add('from here on nothing goes wrong')
    let undone: readonly string[] = []
    for (let round = 1; round <= CALM_ROUNDS; round += 1) {
      this.#stage.clock.advance(CALM_SECONDS)
      this.#wire.hurry()
      await this.#arrivals()
      const process = await this.#living()
      const { kit } = process
      if (!(await this.#integration(process)).isActive) await kit.integrations.enable(this.#integrationId)
      // As an operator does who has seen that they failed.
      if (round > 1) {
        await kit.integrations.webhooks.replayMany({ status: 'failed' })
        await kit.integrations.admin.notifications.retry()
      }
      for (const run of this.#stage.runs) if (run !== 'events') await this.#do(run)
      await this.#deliverEvents()
      this.#throwMistake()
      undone = await this.#undone()
      if (this.#wire.isQuiet && undone.length === 0) break
    }
    return undone
  }

  async #broken(undone: readonly string[]): Promise<BrokenInvariant[]> {
    const broken: BrokenInvariant[] = []
    const process = await this.#living()
    if (undone.length > 0)
      broken.push({ name: NOTHING_FAILED, message: undone.join('\n'), error: new Error(undone.join('\n')) })
    const end = {
      ...process.host,
      outside: this.#wire.outside as Model,
      integration: await this.#integration(process),
    }
    for (const [name, holds] of Object.entries(this.#scenario.invariants))
      try {
        if ((await holds(end)) === false)
          broken.push({ name, message: 'it returned false', error: new Error(`${name}: false`) })
      } catch (error) {
        broken.push({ name, message: error instanceof Error ? error.message : String(error), error })
      }
    return broken
  }

  /** Webhooks, items, events, syncs and jobs that are not done, with the reason. */
  async #undone(): Promise<string[]> {
    const syncs = [...this.#unendedSyncs].map(([name, reason]) => `the last ${name} did not end: ${reason}`)
    const jobs = [...this.#failedJobs].map(([name, reason]) => `the job ${name} failed: ${reason}`)
    return [...syncs, ...jobs, ...(await unfinishedWork((await this.#living()).framework))]
  }

  #throwMistake(): void {
    if (this.#wire.mistake !== null) throw this.#wire.mistake.error
  }
}

/** An activity that Temporal would not try again. */
class ActivityFailed extends Error {
  constructor(override readonly cause: unknown) {
    super(`failed: ${(cause as Error)?.message ?? String(cause)}`)
  }
}
