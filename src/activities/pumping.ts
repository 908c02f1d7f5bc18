/**
 * Pumps of the inbox of webhooks and of the outbox of events: what they have in common besides their work.
 *
 * Rule: docs/behaviour/webhooks.md, "Claims", "The pump" and "The promise".
 */
import { performance } from 'node:perf_hooks'
import type { ClaimedRow, ClaimedRows } from '../claims/claimed-rows.ts'
import type { RowWorker } from '../claims/claimed-work.ts'
import { Ending } from '../claims/ending.ts'
import {
  endClaim,
  endPromise,
  keepClaim,
  promiseToLook,
  pumpClaims,
  readPromise,
  setApart,
} from '../claims/lease-queries.ts'
import type { Source, Standing } from '../claims/pump.ts'
import { Pump } from '../claims/pump.ts'
import type { Pumped, PumpedQueue, PumpInput, Tally } from '../claims/pump-jobs.ts'
import type { Framework } from '../framework/context.ts'
import { patiently } from '../framework/waiting.ts'
import { notItsTurn } from './activity-failures.ts'
import { HEARTBEAT_EVERY_MS } from './heartbeat.ts'
import type { Surroundings } from './surroundings.ts'

/** A claim that looks unserved is looked at again after this time: Postgres may only just be back, and its holder as well. */
const CERTAIN_MS = 2_000

/** Rows that were set apart, since their pump is dead. */
export interface LostRows {
  readonly claim: string
  readonly ids: readonly number[]
}

/** What pumps work off, and how. */
export interface Pumping<Row, Outcome> {
  readonly queue: PumpedQueue
  readonly rows: ClaimedRows
  /** Rows of a queue that run at once. */
  readonly concurrency: number
  /** Whether what runs has more time when the worker's grace is over. */
  readonly isPatient: boolean
  workOf(worker: RowWorker, claim: string): Source<Row, Outcome> & { readonly tally: Tally }
  /** @returns whether it has to be asked again soon */
  afterLosses(lost: readonly LostRows[]): Promise<{ hasMore: boolean }>
  nextDueInMs(): Promise<number | null>
}

/** As Temporal's activity: it promises to look, and rescues the rows of dead pumps. */
export async function pumpUntilRelieved<Row extends ClaimedRow, Outcome>(
  framework: Framework,
  pumping: Pumping<Row, Outcome>,
  surroundings: Surroundings,
  { claim: given }: PumpInput,
): Promise<Pumped> {
  if (surroundings.stopping?.aborted === true) {
    // Without a pump that hands over, this worker may be the only one: the next try waits for another.
    if (surroundings.isHandingOver?.() !== true) throw notItsTurn('this worker stops', '1 second')
    // The workflow opens another one at once. Temporal tries a failed one again after a second, however short its delay.
    return { end: 'declined', processed: 0, failed: 0, handedBack: 0, nextDueInMs: null }
  }
  const claim = `${given}:${surroundings.info.attempt}`
  const work = pumpUntilEmpty(framework, pumping, surroundings, claim, standingOf(framework, pumping, given, claim))
  surroundings.beforeEnd?.(work)
  return work
}

/**
 * Works off what waits.
 *
 * @param standing left out: no workflow and no other process knows the pump, and it ends when nothing waits
 */
export async function pumpUntilEmpty<Row extends ClaimedRow, Outcome>(
  { db, logger }: Framework,
  pumping: Pumping<Row, Outcome>,
  { cancellationSignal, isForgotten, graceIsOver, stopping, info, heartbeat }: Surroundings,
  claim: string,
  standing?: Standing,
): Promise<Pumped> {
  const [cancelled, forgotten] = [new AbortController(), new AbortController()]
  const cancel = (): void => {
    const how = standing !== undefined && isForgotten?.() === true ? forgotten : cancelled
    how.abort(cancellationSignal.reason)
  }
  if (cancellationSignal.aborted) cancel()
  else cancellationSignal.addEventListener('abort', cancel, { once: true })
  // A cancellation alone gives no handler up.
  const ending = new Ending(graceIsOver ?? cancellationSignal)
  const isOver = AbortSignal.any([cancelled.signal, ending.begun])
  const work = pumping.workOf({ db, logger, signal: isOver }, claim)
  const pump = new Pump<Row, Outcome>({
    source: work,
    concurrency: pumping.concurrency,
    begun: ending.begun,
    cancelled: cancelled.signal,
    forgotten: forgotten.signal,
    isRetry: info.heartbeatDetails !== undefined,
    enough: pumping.isPatient ? ending.signal : ending.begun,
    logger,
    ...(standing === undefined ? {} : { standing }),
    ...(stopping === undefined ? {} : { stopping }),
  })
  // At once, too: a try that finds these details knows that it is a retry.
  heartbeat?.(pump.figures)
  const beat = setInterval(() => heartbeat?.(pump.figures), HEARTBEAT_EVERY_MS)
  try {
    const end = await pump.run()
    const asking = { signal: isOver, logger }
    const nextDueInMs = await patiently('asking when the next row is due', () => pumping.nextDueInMs(), asking)
    return { end, ...work.tally, nextDueInMs }
  } finally {
    clearInterval(beat)
    ending.release()
  }
}

/** A pump as other processes know it. @param given its claim, as its workflow knows it */
function standingOf<Row, Outcome>(
  framework: Framework,
  pumping: Pumping<Row, Outcome>,
  given: string,
  claim: string,
): Standing {
  // Not behind the statements of rows: a claim that is not renewed for 20 s is another pump's. A worker stores no deliveries.
  const { arrivalDb: db, tables, config, workflows } = framework
  const prefix = config.cache_prefix
  const inbox = { prefix, inbox: pumping.queue }
  const suspects = new Map<string, number>()
  return {
    promise: (ms) => promiseToLook(db, tables, inbox, claim, ms),
    async isRelieved(by) {
      const promised = await readPromise(db, tables, inbox)
      if (promised === null || promised.remainingMs <= 0 || promised.by === claim) return false
      // Claims end in numbers that count the pumps.
      return by === 'any' || promised.by.localeCompare(claim, 'en', { numeric: true }) > 0
    },
    async promisedFor() {
      const promised = await readPromise(db, tables, inbox)
      return promised === null || promised.hasEnded ? 0 : Math.max(0, promised.remainingMs)
    },
    keptPromise: () => endPromise(db, tables, inbox, claim),
    serve: (seconds) => keepClaim(db, tables, { prefix, claim }, seconds),
    ended: () => endClaim(db, tables, { prefix, claim }),
    rescue: () => rescue(framework, pumping, suspects, (held) => held.startsWith(`${given}:`) && held !== claim),
    call: (needs) => workflows.callPump(pumping.queue, { claim: given, needs }),
  }
}

/**
 * Sets the rows of dead pumps apart.
 *
 * @param suspects claims that looked unserved, and since when
 * @param isPredecessor whether a claim is of an earlier try of the same activity, which its worker's death has ended
 * @returns whether some claim may still turn out to be a dead one's
 */
async function rescue<Row, Outcome>(
  { db, tables, config }: Framework,
  pumping: Pumping<Row, Outcome>,
  suspects: Map<string, number>,
  isPredecessor: (claim: string) => boolean,
): Promise<{ looksAgain: boolean }> {
  const prefix = config.cache_prefix
  const claims = await pumpClaims(db, tables, pumping.rows, prefix)
  const unserved = new Set(claims.filter(({ served }) => !served).map(({ claim }) => claim))
  for (const claim of suspects.keys()) if (!unserved.has(claim)) suspects.delete(claim)
  const lost: LostRows[] = []
  for (const claim of unserved) {
    const since = suspects.get(claim) ?? performance.now()
    suspects.set(claim, since)
    if (performance.now() - since < CERTAIN_MS) continue
    const ids = await setApart(db, tables, pumping.rows, { prefix, claim })
    suspects.delete(claim)
    if (ids.length > 0) lost.push({ claim, ids })
  }
  const { hasMore } = await pumping.afterLosses(lost)
  return {
    looksAgain: hasMore || suspects.size > 0 || claims.some(({ claim, served }) => served && isPredecessor(claim)),
  }
}
