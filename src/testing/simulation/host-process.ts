/**
 * One start of the host's process. It can die between any two of its steps, as by SIGKILL: its work stops there, and the
 * database rolls back its open transaction.
 */
import { partsOf } from '../../create-integrations.ts'
import type { Framework } from '../../framework/context.ts'
import type { ManualClock } from '../manual-clock.ts'
import type { Exchanges } from '../postgres/shared-session.ts'
import type { InProcessPostgres } from '../postgres/wire-postgres.ts'
import type { TestIntegrations, TestIntegrationsOptions } from '../test-integrations.ts'
import { kitOver } from '../test-integrations.ts'
import type { LivingRuns } from '../without-temporal.ts'
import type { LastingCache } from './lasting-cache.ts'
import type { SimulatedHost } from './scenario.ts'

export const DIED = Symbol('the process died')

/** How many steps are left until it dies. Infinity: it lives on. */
interface Remaining {
  /** Statements and calls of the host. */
  host: number
  /** Statements of the framework, too. */
  statements: number
}

/** What outlives the process, beside its rows. */
export interface Lasting {
  readonly cache: LastingCache
  /** Temporal's. */
  readonly runs: LivingRuns
}

const ENDLESS: Remaining = { host: Number.POSITIVE_INFINITY, statements: Number.POSITIVE_INFINITY }

export class HostProcess {
  readonly kit: TestIntegrations
  readonly framework: Framework
  #remaining: Remaining = { ...ENDLESS }
  #isDead = false
  #die: (value: typeof DIED) => void = () => {}
  readonly #died = new Promise<typeof DIED>((resolve) => {
    this.#die = resolve
  })
  readonly #connections = new Map<symbol, Exchanges>()

  constructor(
    database: Pick<InProcessPostgres, 'connect'>,
    clock: ManualClock,
    { cache, runs }: Lasting,
    options: Omit<TestIntegrationsOptions, 'now'>,
  ) {
    const connect = async (whose: 'framework' | 'host') =>
      database.connect((session) => this.#watched(session, whose === 'host'))
    this.kit = kitOver({ clock, connect, cache: cache.of(this), runs }, options)
    this.framework = partsOf(this.kit.integrations).framework
  }

  /** As the scenario sees it. */
  get host(): SimulatedHost {
    const { integrations, sql, db } = this.kit
    return { integrations, sql, db }
  }

  get isDead(): boolean {
    return this.#isDead
  }

  /** The result, or DIED as soon as the process dies. */
  run<T>(work: () => Promise<T>): Promise<T | typeof DIED> {
    return Promise.race([work(), this.#died])
  }

  /** Sets how many steps are left until it dies. Default: it lives on. */
  diesAfter(remaining: Partial<Remaining>): void {
    this.#remaining = { ...ENDLESS, ...remaining }
  }

  /** Counts a step of the host. Where the process dies at that step, the promise stays open for ever. */
  hostStep(): Promise<void> {
    this.#remaining.host -= 1
    return this.#goesOn()
  }

  /** For code of a process that may be dead. */
  async whileAlive<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isDead) return never()
    const result = await work()
    return this.#isDead ? never() : result
  }

  /** Ends it in order: the seed is over. */
  async close(): Promise<void> {
    if (this.#isDead) return
    this.#isDead = true
    await this.kit.close()
  }

  async #goesOn(): Promise<void> {
    if (this.#isDead) return never()
    if (this.#remaining.host > 0 && this.#remaining.statements > 0) return
    this.#isDead = true
    for (const [who, session] of this.#connections) session.release(who)
    this.#die(DIED)
    return never()
  }

  #watched(session: Exchanges, isHost: boolean): Exchanges {
    return {
      exchange: async (who, bytes) => {
        this.#connections.set(who, session)
        const answer = await this.whileAlive(() => session.exchange(who, bytes))
        this.#remaining.statements -= 1
        if (isHost) this.#remaining.host -= 1
        await this.#goesOn()
        return answer
      },
      release: (who) => {
        this.#connections.delete(who)
        session.release(who)
      },
    }
  }
}

function never(): Promise<never> {
  return new Promise(() => {})
}
