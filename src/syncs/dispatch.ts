/** Starts the runs that are due. Rule: docs/behaviour/sync-scheduling.md, "Dispatch". */

import { setTimeout as sleep } from 'node:timers/promises'
import { SpanKind } from '@opentelemetry/api'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { warnOfUnregistered } from '../integrations/provider-list.ts'
import { identityAttributes, inSpan } from '../observability/spans.ts'
import type { DueIntegration } from './due.ts'
import { declaredStreams, dueIntegrations, dueRule, dueStreams, ensureStreams } from './due.ts'
import type { DispatchResult } from './sync-jobs.ts'
import { namedStream } from './sync-rows.ts'

/** Runs started in one dispatch: 50 s at the pace below. The Schedule skips a minute in which a dispatch still works. */
const MAX_STARTS = 2_500
/** Integrations that have a run already stay due until its end. After this time the dispatch looks no further behind them. */
const MAX_SECONDS = 300
/** Kept until the next dispatch has ended: it begins within a minute, and its last starts take another. */
const FULL_SECONDS = MAX_SECONDS + 120
const FULL_KEY = 'dispatch-full'
/** Rows read at once. */
const PAGE = 1_000
/** At most 50 starts a second: only a thousand runs due at once would need a jitter, and this pace is one. */
const START_EVERY_MS = 20
/** Starts under way at once: a slow answer must not slow the pace down, nor pile starts up. */
const MAX_STARTING = 10

/** Where the pace takes its time from. */
export interface Pace {
  /** Milliseconds of a clock that never goes back. */
  now(): number
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

const realPace: Pace = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
}

/**
 * Starts a run of each integration, or stream of one, that is due. Harmless to repeat: a run's id refuses a second start.
 *
 * @throws BackendUnreachable, or the signal's reason when the worker stops: the next call starts the rest
 */
export async function startDueSyncs(
  framework: Framework,
  signal: AbortSignal,
  pace: Pace = realPace,
): Promise<Pick<DispatchResult, 'due' | 'started' | 'alreadyRunning'>> {
  const counts = { due: 0, started: 0, alreadyRunning: 0 }
  await warnOfUnregistered(framework)
  await paced(dueRows(framework, pace), { pace, signal, atMost: MAX_STARTS }, async (row) => {
    counts.due += 1
    const answer = await started(framework, row)
    if (answer === 'started') counts.started += 1
    if (answer === 'already running') counts.alreadyRunning += 1
    return answer !== 'already running'
  })
  if (counts.due - counts.alreadyRunning >= MAX_STARTS) await framework.cache.set(FULL_KEY, true, FULL_SECONDS)
  return counts
}

/** Whether a dispatch has lately started all that it may: what is due for long waits for its turn. */
export async function isDispatchFull({ cache }: Pick<Framework, 'cache'>): Promise<boolean> {
  return (await cache.get(FULL_KEY)) !== undefined
}

/** Never planned ones first, then the longest overdue; read page by page, each row once, even if it is planned again meanwhile. */
async function* dueRows(framework: Framework, pace: Pace): AsyncGenerator<DueIntegration> {
  const { db, tables, logger } = framework
  const rule = dueRule(framework)
  const declared = declaredStreams(framework)
  await ensureStreams(db, tables, declared)
  const { backoff } = rule
  const end = pace.now() + MAX_SECONDS * 1_000
  let isCut = false
  async function* rowsOf(
    list: (after: DueIntegration | null) => Promise<DueIntegration[]>,
  ): AsyncGenerator<DueIntegration> {
    let page: DueIntegration[] = []
    do {
      isCut ||= pace.now() >= end
      if (isCut) return
      page = await list(page.at(-1) ?? null)
      yield* page
    } while (page.length === PAGE)
  }
  yield* oldestFirst([
    rowsOf((after) => dueIntegrations(db, tables, rule, PAGE, after)),
    rowsOf((after) => dueStreams(db, tables, { declared, backoff }, PAGE, after)),
  ])
  if (isCut) warnOfCut(logger)
}

/** Merges lists in this order, so that many integrations with one sync leave streams their turn. */
async function* oldestFirst(lists: readonly AsyncGenerator<DueIntegration>[]): AsyncGenerator<DueIntegration> {
  const heads: { readonly list: AsyncGenerator<DueIntegration>; row: DueIntegration }[] = []
  for (const list of lists) {
    const { value, done } = await list.next()
    if (done !== true) heads.push({ list, row: value })
  }
  for (;;) {
    const [head] = heads.toSorted((a, b) => plannedMs(a.row) - plannedMs(b.row))
    if (head === undefined) return
    yield head.row
    const { value, done } = await head.list.next()
    if (done === true) heads.splice(heads.indexOf(head), 1)
    else head.row = value
  }
}

const plannedMs = ({ nextSyncAt }: DueIntegration): number => nextSyncAt?.getTime() ?? Number.MIN_SAFE_INTEGER

function warnOfCut(logger: Framework['logger']): void {
  logger.warn(
    { event: 'sync.dispatch_cut_short', seconds: MAX_SECONDS },
    'a dispatch did not come to the end of what is due: too many integrations have a run already, or a pause; the next one starts from the beginning',
  )
}

async function started(framework: Framework, row: DueIntegration): Promise<'started' | 'already running' | 'refused'> {
  try {
    // Each run is a trace of its own, linked to the dispatch: one trace of all runs would help no reader.
    const run = await inSpan(
      () => ({ name: 'sync start', kind: SpanKind.PRODUCER, attributes: identityAttributes(row), parent: 'none' }),
      () => framework.workflows.startSync(row.id, row.provider, { onlyIfDue: true, ...namedStream(row.stream) }),
    )
    return run === 'already running' ? run : 'started'
  } catch (error) {
    // The other starts would meet the same.
    if (isIntegrationsError(error, 'backend_unreachable')) throw error
    integrationLogger(framework, row).error(
      { event: 'sync.start_refused', error: errorLine(error, 500) },
      'a run that is due could not be started; the next dispatch tries again',
    )
    return 'refused'
  }
}

/**
 * Works through the rows in order, one each 20 ms, slow ones beside each other. After the first fault no row begins, and the
 * fault is thrown once all work has ended.
 *
 * @param work false: it started nothing, so the next row need not wait, and it does not count for `atMost`
 */
async function paced<Row>(
  rows: AsyncIterable<Row>,
  { pace, signal, atMost }: { readonly pace: Pace; readonly signal: AbortSignal; readonly atMost: number },
  work: (row: Row) => Promise<boolean>,
): Promise<void> {
  /** With the moment at which each began. */
  const underWay = new Map<Promise<void>, number>()
  const faults: unknown[] = []
  let done = 0
  let lastAt = Number.NEGATIVE_INFINITY
  const isFull = (): boolean => underWay.size >= MAX_STARTING || (underWay.size > 0 && done + underWay.size >= atMost)
  // A late one does not make those behind it come faster.
  const early = (): number => Math.max(lastAt, ...underWay.values()) + START_EVERY_MS - pace.now()
  /** One at a time: each listens to the signal until it ends. */
  let nap: Promise<void> | undefined
  try {
    for await (const row of rows) {
      while (faults.length === 0 && !signal.aborted) {
        if (isFull()) await Promise.race(underWay.keys())
        else if (early() > 0) await Promise.race([slept(), ...underWay.keys()])
        else break
      }
      if (signal.aborted && faults.length === 0) faults.push(signal.reason)
      if (faults.length > 0 || done >= atMost) break
      const at = pace.now()
      const job = work(row)
        .then((counts) => {
          if (!counts) return
          done += 1
          lastAt = Math.max(lastAt, at)
        })
        .catch((error: unknown) => void faults.push(error))
        .finally(() => underWay.delete(job))
      underWay.set(job, at)
    }
  } finally {
    await Promise.all(underWay.keys())
  }
  if (faults.length > 0) throw faults[0]

  function slept(): Promise<void> {
    // It ends early when the worker stops, which the loop sees next.
    nap ??= pace
      .sleep(early(), signal)
      .catch(() => {})
      .finally(() => (nap = undefined))
    return nap
  }
}
