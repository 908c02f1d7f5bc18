/**
 * Plays plans. One database serves all of them; each plan gets a new world outside and a new host.
 *
 * Rule: docs/testing.md, "Simulation".
 */
import { randomBytes } from 'node:crypto'
import type { Sql } from 'postgres'
import { DURABLE_EVENTS } from '../../events/durable-event-rules.ts'
import { handlesWebhooks } from '../../providers/contracts.ts'
import { streamsOf } from '../../providers/streams.ts'
import { MovingClock } from '../manual-clock.ts'
import type { InProcessPostgres } from '../postgres/wire-postgres.ts'
import { clientOf, startMigrated } from '../test-integrations.ts'
import { LivingRuns } from '../without-temporal.ts'
import { tableEmptier } from './empty-tables.ts'
import { HostProcess } from './host-process.ts'
import { LastingCache } from './lasting-cache.ts'
import type { Material, Plan } from './plan.ts'
import { FAULT_KINDS } from './plan.ts'
import type { Played } from './plan-player.ts'
import { Play } from './plan-player.ts'
import { Random } from './random.ts'
import type { HostOptions, Outside, Scenario } from './scenario.ts'
import { inMachineTime, inRealTime, inVirtualTime } from './virtual-time.ts'

const BEGINNING = '2026-03-01T12:00:00Z'
/** Real time for one plan: a process that stands still must not stop the search. */
const PATIENCE_MS = 60_000

export class Simulator<Model extends Outside> {
  /** @throws EmbeddedDatabaseMissing; what the scenario's `tables` and `host()` throw */
  static async open<Model extends Outside>(scenario: Scenario<Model>): Promise<Simulator<Model>> {
    const clock = new MovingClock(scenario.now ?? BEGINNING)
    const key = `simulation:${randomBytes(32).toString('base64')}`
    let database: InProcessPostgres | undefined
    const first = new HostProcess(
      { connect: (through) => (database as InProcessPostgres).connect(through) },
      clock,
      { cache: new LastingCache(clock), runs: new LivingRuns() },
      { ...withDefaults(scenario.host()), encryptionKeys: key },
    )
    const { framework } = first
    const place = { prefix: framework.config.table_prefix, schema: 'public', around: inRealTime }
    database = await inMachineTime(() => startMigrated(clock, place))
    const provider = framework.providers.get(scenario.integration.provider)
    const streams = streamsOf(provider)
    const open = database
    const sql = clientOf(async () => open.connect())
    if (scenario.tables !== undefined) await sql.unsafe(scenario.tables)
    scenario.register?.(first.host)
    const hasDurable = DURABLE_EVENTS.some((name) => framework.listeners.isDurable(name))
    const material: Material = {
      changes: Object.keys(scenario.outside({ now: () => clock.now(), deliver: () => {} }).changes),
      runs: [
        ...(handlesWebhooks(provider) ? ['webhooks'] : []),
        ...(streams.length > 0 ? ['sync'] : []),
        ...(hasDurable ? ['events'] : []),
        ...Object.keys(scenario.jobs ?? {}),
      ],
      faults: scenario.faults ?? FAULT_KINDS,
    }
    await first.close()
    const clean = await tableEmptier(sql, `${framework.config.table_prefix}migrations`)
    return new Simulator(scenario, { clock, key, database, sql, streams, material, clean })
  }

  /** What a plan of this scenario can be made of. */
  readonly material: Material
  readonly #scenario: Scenario<Model>
  readonly #clock: MovingClock
  readonly #key: string
  readonly #database: InProcessPostgres
  readonly #sql: Sql
  readonly #streams: readonly (string | null)[]
  readonly #clean: () => Promise<void>

  private constructor(
    scenario: Scenario<Model>,
    of: {
      readonly clock: MovingClock
      readonly key: string
      readonly database: InProcessPostgres
      readonly sql: Sql
      readonly streams: readonly (string | null)[]
      readonly material: Material
      readonly clean: () => Promise<void>
    },
  ) {
    this.#scenario = scenario
    this.#clock = of.clock
    this.#key = of.key
    this.#database = of.database
    this.#sql = of.sql
    this.#streams = of.streams
    this.#clean = of.clean
    this.material = of.material
  }

  /** @param patienceMs of real time @throws what the model itself throws; SimulationStuck */
  play(plan: Plan, patienceMs = PATIENCE_MS): Promise<Played> {
    const clock = this.#clock
    clock.set(this.#scenario.now ?? BEGINNING)
    const lasting = { cache: new LastingCache(clock), runs: new LivingRuns() }
    return inVirtualTime(clock, new Random(0), async (time) => {
      await this.#clean()
      const play = new Play(this.#scenario, plan, {
        clock,
        time,
        livingRuns: lasting.runs,
        streams: this.#streams,
        runs: this.material.runs,
        start: async (transport) => {
          // Those of a process before it would be in the way: the database has one session.
          await this.#sql`deallocate all`.simple()
          const options = { ...withDefaults(this.#scenario.host()), encryptionKeys: this.#key, transport }
          return new HostProcess(this.#database, clock, lasting, options)
        },
      })
      return play.run(patienceMs)
    })
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 1 })
    await this.#database.close()
  }
}

/** Where the host's config is silent, short waits let a short story show much. One item runs at a time: the story must stay the same. */
function withDefaults(host: HostOptions): HostOptions {
  const { config = {} } = host
  return {
    ...host,
    config: {
      ...config,
      webhook: { max_attempts: 5, retry_backoff: [60], processing_timeout: 60, ...config.webhook },
      rate_limiting: { max_wait_seconds: 0, ...config.rate_limiting },
      sync: { ...config.sync, item_concurrency: 1 },
    },
  }
}
