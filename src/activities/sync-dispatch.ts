/** Which integrations are due, and which are late. Rule: docs/behaviour/sync-scheduling.md. */

import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import type { Pace } from '../syncs/dispatch.ts'
import { startDueSyncs } from '../syncs/dispatch.ts'
import { evaluateStaleSyncs } from '../syncs/staleness.ts'
import type { DispatchResult } from '../syncs/sync-jobs.ts'
import { asFailure } from './activity-failures.ts'
import { temporalSurroundings } from './surroundings.ts'

export function syncDispatchActivities(
  framework: Framework,
  { surroundings = temporalSurroundings, pace }: { surroundings?: typeof temporalSurroundings; pace?: Pace } = {},
) {
  return {
    /**
     * Starts a run of each integration that is due. Harmless to repeat: a run's id refuses a second start.
     *
     * @throws when Temporal can't be reached, or the worker stops: the next try starts the rest
     */
    async startDueSyncs(): Promise<Pick<DispatchResult, 'due' | 'started' | 'alreadyRunning'>> {
      try {
        return await startDueSyncs(framework, surroundings().cancellationSignal, pace)
      } catch (error) {
        if (!isIntegrationsError(error, 'backend_unreachable')) throw error
        throw asFailure(error, { secrets: [], nonRetryable: false })
      }
    },

    /** Notes which integrations became stale or recovered, and tells the listeners of each edge. */
    async evaluateStaleness(): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
      return evaluateStaleSyncs(framework)
    },
  }
}
