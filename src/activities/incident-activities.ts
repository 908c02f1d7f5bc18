/** An incident's life, as its workflow sees it. Rule: docs/behaviour/incidents.md. */

import { wakePendingOutbox } from '../events/outbox.ts'
import type { Framework } from '../framework/context.ts'
import { autoCloseIncident, lookAtIncident, rewakeIncidents } from '../incidents/follow.ts'
import type { FollowIncidentInput, IncidentSight } from '../incidents/incident-jobs.ts'
import { foundBy } from '../observability/metric-subject.ts'
import type { AsksLabels, FoundBy } from '../temporal/label-rules.ts'

type Look = FollowIncidentInput & AsksLabels

export function incidentActivities(framework: Framework) {
  const seen = async ({ integrationId, ...asks }: Look): Promise<(IncidentSight & FoundBy) | null> => {
    const sight = await lookAtIncident(framework, integrationId)
    return sight === null ? null : { ...sight, ...(await foundBy(framework, integrationId, asks)) }
  }

  return {
    /** Reads the integration's newest incident and notes that its workflow has seen it; null: there is none. Harmless to repeat. */
    async followIncident(look: Look): Promise<(IncidentSight & FoundBy) | null> {
      return seen(look)
    },
    /** Closes the open incident if it is old enough and all is well, and reads it again. Harmless to repeat. */
    async closeIncidentWhenWell(look: Look): Promise<(IncidentSight & FoundBy) | null> {
      await autoCloseIncident(framework, look.integrationId)
      return seen(look)
    },
    /** Signals the workflows of incidents whose change they have not seen, and the outbox if rows wait. Harmless to repeat. */
    async rewakeFollowers(): Promise<void> {
      const rewoken = await rewakeIncidents(framework)
      if (rewoken > 0)
        framework.logger.info({ event: 'incident.rewoken', integrations: rewoken }, 'told workflows of incidents again')
      await wakePendingOutbox(framework)
    },
  }
}
