/**
 * The claim machine: what a worker does with rows that it has claimed, the same for each table. It settles them once, takes up rows of
 * dead workers, and hands back what has not started. A concept supplies its table, `run`, `settlement` and `report`.
 *
 * Rule: docs/behaviour/webhooks.md, "Claims". Proof, with a queue of its own: test/claims/claimed-work.pg.test.ts.
 */
import type { Database } from '../db/client.ts'
import type { Logger } from '../framework/logger.ts'
import { integrationLogger } from '../framework/logger.ts'
import { errorKind } from '../framework/thrown.ts'
import { patiently } from '../framework/waiting.ts'
import type { Claimed, ClaimedRow, ClaimedRows, ClaimRoom, Settlement } from './claimed-rows.ts'
import { alreadySettled, handBack, handBackUnknown, idsHeldBy, settle, takeUp } from './claimed-rows.ts'
import type { Looked, Source } from './pump.ts'
import type { Tally } from './pump-jobs.ts'
import type { Queued } from './queues.ts'
import { MAX_LOST_WORKERS } from './rules.ts'

/** The end of one attempt of a row. */
export interface Ended {
  readonly row: ClaimedRow
  readonly settlement: Settlement
}

/** A table whose rows are claimed, and what its concept does with outcomes. */
export interface ClaimedQueue<Outcome extends Ended> {
  readonly rows: ClaimedRows
  /** For log lines. `event` begins their names; `field` has the row's id; `row` is its word. */
  readonly named: { readonly event: string; readonly field: string; readonly row: string }
  /** The provider of an integration, as far as it is known. */
  readonly providerOf: (integrationId: number) => string
  /** Stores outcomes, where more belongs into the transaction. Default: {@link settle}. */
  store?(outcomes: readonly Outcome[]): Promise<Set<number>>
  /** Counts and logs an outcome that is stored. @returns how the tally counts it; null: the row runs again */
  report(outcome: Outcome): 'processed' | 'failed' | null
}

/** How a concept counts lost workers, where a second try of an activity takes up the rows of the first one. */
export interface LossRule<Row, Outcome> {
  /** How often a row has lost its worker. */
  count(row: Row): number
  /** What a take-up writes: one more loss of the row. In SQL the row is `r`. */
  oneMore(row: Row): Readonly<Record<string, unknown>>
  /** Reads the row's integration, for log lines. Never throws. */
  note(integrationId: number): Promise<unknown>
  /** The outcome of a row that has lost too many workers. */
  givenUp(row: Row, reason: string): Outcome
}

/** A queue that pumps work off. */
export interface PumpedQueue<Row extends ClaimedRow, Outcome extends Ended, Context> extends ClaimedQueue<Outcome> {
  readonly contexts: Contexts<Context>
  /** A row that has not started this long after its claim goes back. */
  readonly startWindowMs: number
  claimNext(claim: string, room: ClaimRoom): Promise<Claimed<Row>>
  /** Where the row waits among those that a pump holds. */
  place(row: Row): Pick<Queued<Row>, 'queue' | 'bytes' | 'guarded' | 'isOrdered'>
  /**
   * Runs the handler. Never throws.
   *
   * @param context null: the integration is gone
   * @param enough aborted when the handler is given up, or another worker has the row
   * @returns null: the row was not handled, and goes back
   */
  run(row: Row, context: Context | null, enough: AbortSignal): Promise<Outcome | null>
  /** The outcome of a row whose `run()` has thrown all the same. @param error its kind: its text may hold a secret */
  failed(row: Row, error: string): Outcome
}

/** What rows need of their integrations: see integrations/integration-contexts.ts. */
export interface Contexts<Context> {
  refresh(versions: ReadonlyMap<number, string>, seenAt: number): Promise<void>
  read(integrationId: number): Promise<Context | null>
}

/** The worker, as far as its rows need it. */
export interface RowWorker {
  readonly db: Database
  readonly logger: Logger
  /** Aborted when it stops: a statement that fails is not tried again. */
  readonly signal: AbortSignal
}

export class ClaimedWork<Row extends ClaimedRow, Outcome extends Ended> {
  readonly tally: { -readonly [Count in keyof Tally]: Tally[Count] } = { processed: 0, failed: 0, handedBack: 0 }
  protected readonly worker: RowWorker
  readonly #queue: ClaimedQueue<Outcome>

  constructor(worker: RowWorker, queue: ClaimedQueue<Outcome>) {
    this.worker = worker
    this.#queue = queue
  }

  /** Stores outcomes and reports them. Where another worker has claimed the row since, its outcome counts. */
  async settle(outcomes: readonly Outcome[]): Promise<void> {
    const { db } = this.worker
    const { rows, named } = this.#queue
    const settlements = outcomes.map(({ settlement }) => settlement)
    const settled = (await this.#queue.store?.(outcomes)) ?? (await settle(db, rows, settlements))
    const left = settlements.filter(({ id }) => !settled.has(id))
    for (const id of await alreadySettled(db, rows, left)) settled.add(id)
    for (const outcome of outcomes) {
      const { id, integrationId, attempts } = outcome.row
      if (settled.has(id)) {
        const counted = this.#queue.report(outcome)
        if (counted !== null) this.tally[counted] += 1
        continue
      }
      const provider = this.#queue.providerOf(integrationId)
      const logger = integrationLogger(this.worker, { id: integrationId, provider })
      logger.warn(
        { event: `${named.event}.superseded`, [named.field]: id, attempt: attempts },
        `a later attempt holds this ${named.row}; its outcome counts`,
      )
    }
  }

  /** Gives rows back that no handler has seen. @returns their ids */
  async handBack(rows: readonly Row[]): Promise<ReadonlySet<number>> {
    const back = await handBack(this.worker.db, this.#queue.rows, rows)
    this.tally.handedBack += back.size
    return back
  }

  /**
   * Takes up a row whose worker died, or gives it up after too many losses: then it is settled.
   *
   * @returns null: it is settled, or another worker has moved it since
   */
  async takeUp(held: Row, losses: LossRule<Row, Outcome>): Promise<Row | null> {
    const row = await takeUp(this.worker.db, this.#queue.rows, held, losses.oneMore(held))
    if (row === null) return null
    await losses.note(row.integrationId)
    logLoss(this.worker, this.#queue, row, losses.count(row))
    return this.unlessLostTooOften(row, losses)
  }

  /** @returns null: the row has lost too many workers, and is settled as failed */
  async unlessLostTooOften(row: Row, losses: LossRule<Row, Outcome>): Promise<Row | null> {
    const count = losses.count(row)
    if (count < MAX_LOST_WORKERS) return row
    const outcome = losses.givenUp(row, 'worker lost')
    await patiently('a settlement', () => this.settle([outcome]), this.worker)
    return null
  }
}

/** Says that a row has lost its worker, and is taken up. */
export function logLoss(
  worker: Pick<RowWorker, 'logger'>,
  { named, providerOf }: Pick<ClaimedQueue<never>, 'named' | 'providerOf'>,
  { id, integrationId }: ClaimedRow,
  losses: number,
): void {
  const logger = integrationLogger(worker, { id: integrationId, provider: providerOf(integrationId) })
  logger.warn(
    { event: `${named.event}.worker_lost`, [named.field]: id, losses },
    `the worker of this ${named.row} was lost; it is taken up again`,
  )
}

/** The rows of one claim of a pump, or a row that is run on its own. */
export class PumpedWork<Row extends ClaimedRow, Outcome extends Ended, Context>
  extends ClaimedWork<Row, Outcome>
  implements Source<Row, Outcome>
{
  readonly #queue: PumpedQueue<Row, Outcome, Context>
  readonly #claim: string

  constructor(worker: RowWorker, queue: PumpedQueue<Row, Outcome, Context>, claim: string) {
    super(worker, queue)
    this.#queue = queue
    this.#claim = claim
  }

  async claim(room: ClaimRoom): Promise<Looked<Row>> {
    const { contexts, startWindowMs } = this.#queue
    const seenAt = performance.now()
    const { rows, versions, ...walk } = await this.#queue.claimNext(this.#claim, room)
    // Each is read again where it is needed: no claimed row is lost to a read that fails.
    if (rows.length > 0) await contexts.refresh(versions, seenAt).catch(() => {})
    const startBy = performance.now() + startWindowMs
    return { rows: rows.map((row) => ({ row, startBy, ...this.#queue.place(row) })), ...walk }
  }

  async run(row: Row, enough: AbortSignal): Promise<Outcome | null> {
    let context: Context | null
    try {
      const read = () => this.#queue.contexts.read(row.integrationId)
      context = await patiently('reading what a row needs', read, this.worker)
    } catch {
      // The database was away until the worker stopped, as the log says by now. The row has not started.
      return null
    }
    try {
      return await this.#queue.run(row, context, enough)
    } catch (thrown) {
      return this.#failed(row, errorKind(thrown))
    }
  }

  /** A fault of ours ends its row only. Thrown on, it would end the pump with all its rows, and perhaps the process. */
  #failed(row: Row, error: string): Outcome {
    const { named, providerOf } = this.#queue
    const { id, integrationId } = row
    integrationLogger(this.worker, { id: integrationId, provider: providerOf(integrationId) }).error(
      { event: 'inbox.row_broke', row: named.row, id, error },
      'the run of a row threw, which it never should; the row has failed',
    )
    return this.#queue.failed(row, error)
  }

  heldIds(): Promise<ReadonlySet<number>> {
    return idsHeldBy(this.worker.db, this.#queue.rows, this.#claim)
  }

  handBackUnknown(known: ReadonlySet<number>): Promise<void> {
    return handBackUnknown(this.worker.db, this.#queue.rows, this.#claim, known)
  }
}
