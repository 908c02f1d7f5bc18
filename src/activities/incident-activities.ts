/** Failure rates, and an incident's life as its workflow sees it. Rules: docs/behaviour/failure-rates.md, docs/behaviour/incidents.md. */

import { closeEndedLoops } from '../echoes/loops.ts'
import { listeningBriefly } from '../events/listening-until.ts'
import { wakePendingOutbox } from '../events/outbox.ts'
import type { Framework } from '../framework/context.ts'
import { evaluateFailureRates } from '../incidents/anomalies.ts'
import { autoCloseIncident, lookAtIncident, rewakeIncidents } from '../incidents/follow.ts'
import type { EvaluateFailuresResult, FollowIncidentInput, IncidentSight } from '../incidents/incident-jobs.ts'
import { wakeSubscriptions } from '../subscriptions/wake-late.ts'

export function incidentActivities(framework: Framework) {
  return {
    /** Harmless to repeat: each edge is noted once. */
    async evaluateFailureRatesNow(): Promise<EvaluateFailuresResult> {
      return evaluateFailureRates(framework)
    },
    /** Reads the integration's newest incident and notes that its workflow has seen it; null: there is none. Harmless to repeat. */
    async followIncident({ integrationId }: FollowIncidentInput): Promise<IncidentSight | null> {
      return lookAtIncident(framework, integrationId)
    },
    /** Closes the open incident if it is old enough and all is well, and reads it again. Harmless to repeat. */
    async closeIncidentWhenWell({ integrationId }: FollowIncidentInput): Promise<IncidentSight | null> {
      await autoCloseIncident(framework, integrationId)
      return lookAtIncident(framework, integrationId)
    },
    /**
     * Ends loops of echoes, signals the workflows of incidents whose change they have not seen, the outbox if rows wait, and the
     * workflows of webhook subscriptions whose look is late. Harmless to repeat.
     */
    async rewakeFollowers(): Promise<void> {
      await listeningBriefly(() => closeEndedLoops(framework))
      const rewoken = await rewakeIncidents(framework)
      if (rewoken > 0)
        framework.logger.info({ event: 'incident.rewoken', integrations: rewoken }, 'told workflows of incidents again')
      await wakePendingOutbox(framework)
      await wakeSubscriptions(framework)
    },
  }
}
