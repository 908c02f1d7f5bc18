/** Who is due, and who is late. Rule: docs/behaviour/sync-scheduling.md. */

import { setTimeout as sleep } from 'node:timers/promises'
import { SpanKind } from '@opentelemetry/api'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { errorLine } from '../framework/logger.ts'
import { warnOfUnregistered } from '../integrations/provider-list.ts'
import { identityAttributes, inSpan } from '../observability/spans.ts'
import { dueRule } from '../syncs/due.ts'
import type { DueIntegration } from '../syncs/due-queries.ts'
import { dueIntegrations } from '../syncs/due-queries.ts'
import { evaluateStaleSyncs } from '../syncs/staleness.ts'
import type { DispatchResult } from '../syncs/sync-jobs.ts'
import { asFailure } from './activity-failures.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Runs started in one dispatch; the next minute's takes the rest. */
const MAX_STARTS = 3_000
/** Those that have a run already, paused or not, stay due until its end: what stands behind them is looked for no longer. */
const MAX_SECONDS = 300
/** Rows read at once. */
const PAGE = 1_000
/** At most 100 starts a second: a thousand due at once are the only reason for a jitter, and this is it. */
const START_EVERY_MS = 10
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

export function syncDispatchActivities(
  framework: Framework,
  {
    surroundings = temporalSurroundings,
    pace = realPace,
  }: { surroundings?: typeof temporalSurroundings; pace?: Pace } = {},
) {
  const { db, tables, logger, workflows } = framework

  return {
    /**
     * Starts a run of each integration that is due. Harmless to repeat: a run's id refuses a second start.
     *
     * @throws when Temporal can't be reached, or the worker stops: the next try starts what this one did not get to
     */
    async startDueSyncs(): Promise<Pick<DispatchResult, 'due' | 'started' | 'alreadyRunning'>> {
      const { cancellationSignal } = surroundings()
      const counts = { due: 0, started: 0, alreadyRunning: 0 }
      await warnOfUnregistered(framework)
      await paced(dueRows(), { pace, signal: cancellationSignal, atMost: MAX_STARTS }, async (row) => {
        counts.due += 1
        const answer = await startOf(row)
        if (answer === 'started') counts.started += 1
        if (answer === 'already running') counts.alreadyRunning += 1
        return answer !== 'already running'
      })
      return counts
    },

    /** Notes which integrations became stale or recovered, and tells the listeners of each edge. */
    async evaluateStaleness(): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
      return evaluateStaleSyncs(framework)
    },
  }

  /** Page by page: each is asked once, whatever is planned anew meanwhile. */
  async function* dueRows(): AsyncGenerator<DueIntegration> {
    const rule = dueRule(framework)
    const end = pace.now() + MAX_SECONDS * 1_000
    let after: DueIntegration | null = null
    while (pace.now() < end) {
      const page: DueIntegration[] = await dueIntegrations(db, tables, rule, PAGE, after)
      yield* page
      after = page.at(-1) ?? null
      if (page.length < PAGE) return
    }
    logger.warn(
      { event: 'sync.dispatch_cut_short', seconds: MAX_SECONDS },
      'a dispatch did not come to the end of what is due: too many integrations have a run already, or a pause; the next one begins anew',
    )
  }

  async function startOf(row: { id: number; provider: string }): Promise<'started' | 'already running' | 'refused'> {
    try {
      // Each run is a trace of its own, linked to the dispatch: one of all runs would be of use to nobody.
      return await inSpan(
        () => ({ name: 'sync start', kind: SpanKind.PRODUCER, attributes: identityAttributes(row), parent: 'none' }),
        () => workflows.startSync(row.id, row.provider, { onlyIfDue: true }),
      )
    } catch (error) {
      // All that are left would meet the same.
      if (isIntegrationsError(error, 'backend_unreachable'))
        throw asFailure(error, { secrets: [], nonRetryable: false })
      logger.error(
        { event: 'sync.start_refused', integration: row.id, provider: row.provider, error: errorLine(error, 500) },
        'a run that is due could not be started; the next dispatch tries again',
      )
      return 'refused'
    }
  }
}

/**
 * Works through the rows in order, one each 10 ms, the slow ones beside each other. The first fault begins no more, and is
 * thrown once what is under way has ended.
 *
 * @param work false: it came to nothing, so the next one need not wait, and it is none of `atMost`
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
  try {
    for await (const row of rows) {
      while (faults.length === 0 && !signal.aborted) {
        if (isFull()) await Promise.race(underWay.keys())
        else if (early() > 0) await Promise.race([slept(early()), ...underWay.keys()])
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

  async function slept(milliseconds: number): Promise<void> {
    // It ends early when the worker stops, which is looked at next.
    await pace.sleep(milliseconds, signal).catch(() => {})
  }
}
