/** Who is due, and who is late. Rule: docs/behaviour/sync-scheduling.md. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isIntegrationsError } from '../core/errors.ts'
import { errorLine } from '../core/logger.ts'
import type { DispatchResult } from '../core/sync-jobs.ts'
import { dueIntegrations } from '../db/queries/sync-due.ts'
import type { Framework } from '../framework.ts'
import { dueRule } from '../operations/due-rule.ts'
import { evaluateStaleSyncs } from '../operations/sync-staleness.ts'
import { asFailure } from './failures.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Integrations started in one dispatch; the next minute's takes the rest. */
const MAX_DUE = 3_000
/** At most 50 starts a second: a thousand due at once are the only reason for a jitter, and this is it. */
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
      const due = await dueIntegrations(db, tables, dueRule(framework), MAX_DUE)
      const answers: ('started' | 'already running' | 'refused')[] = []
      await paced(due, pace, cancellationSignal, async (row) => {
        answers.push(await startOf(row))
      })
      return {
        due: due.length,
        started: answers.filter((answer) => answer === 'started').length,
        alreadyRunning: answers.filter((answer) => answer === 'already running').length,
      }
    },

    /** Notes which integrations became stale or recovered, and tells the listeners of each edge. */
    async evaluateStaleness(): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
      return evaluateStaleSyncs(framework)
    },
  }

  async function startOf(row: { id: number; provider: string }): Promise<'started' | 'already running' | 'refused'> {
    try {
      return await workflows.startSync(row.id, row.provider, { onlyIfDue: true })
    } catch (error) {
      // All that are left would meet the same.
      if (isIntegrationsError(error, 'backend_unreachable'))
        throw asFailure(error, { secrets: [], nonRetryable: false })
      logger.error(
        { event: 'sync.start_refused', integration: row.id, error: errorLine(error, 500) },
        'a run that is due could not be started; the next dispatch tries again',
      )
      return 'refused'
    }
  }
}

/**
 * Works through the rows in order, one each 20 ms, the slow ones beside each other. The first fault begins no more, and is
 * thrown once what is under way has ended.
 */
async function paced<Row>(
  rows: readonly Row[],
  pace: Pace,
  signal: AbortSignal,
  work: (row: Row) => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>()
  const faults: unknown[] = []
  let next = pace.now()
  for (const row of rows) {
    while (faults.length === 0 && underWay.size >= MAX_STARTING) await Promise.race(underWay)
    const early = next - pace.now()
    if (early > 0) await pace.sleep(early, signal).catch((error: unknown) => void faults.push(error))
    if (signal.aborted && faults.length === 0) faults.push(signal.reason)
    if (faults.length > 0) break
    // A late one does not make those behind it come faster.
    next = Math.max(next, pace.now()) + START_EVERY_MS
    const job = work(row)
      .catch((error: unknown) => void faults.push(error))
      .finally(() => underWay.delete(job))
    underWay.add(job)
  }
  await Promise.all(underWay)
  if (faults.length > 0) throw faults[0]
}
