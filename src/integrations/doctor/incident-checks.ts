import type { Check, Observation } from './doctor-check.ts'
import { capped, MAX_LOOKED_AT, moment, warning } from './doctor-check.ts'
import { unseenIncidents } from './doctor-queries.ts'

/** Each dispatch, once a minute, tells the workflows of those that changed unseen (docs/behaviour/incidents.md). */
const UNTOLD_SECONDS = 300
/** A workflow looks once a day; after 26 h a dispatch wakes it. */
const LOOKS_EVERY_SECONDS = 27 * 3_600

export const incidentsUnseen: Check = {
  name: 'incidents.unseen',
  // Without workers none is seen: that check names what mends it.
  needs: ['database.migrations', 'temporal.workers'],
  async look({ config, db, tables, temporal }) {
    const unseen = await unseenIncidents(db, tables, {
      changedSeconds: UNTOLD_SECONDS,
      lookedSeconds: LOOKS_EVERY_SECONDS,
      limit: MAX_LOOKED_AT,
    })
    const found: Observation[] = []
    for (const { id, integrationId, status, openedAt, since } of unseen) {
      const told = `Incident ${id} of integration ${integrationId}, ${status === 'open' ? `open since ${moment(openedAt)}` : 'closed'}, has not been seen by its workflow since ${moment(since)}`
      const days = config.pruning.incidents_stale_after_days
      if (await temporal.isIncidentFollowed(integrationId))
        found.push(warning(`${told}, which runs.`, temporal.commands.askIncident(integrationId)))
      else
        found.push(
          warning(
            `${told}, which is gone${status === 'open' ? `: only pruning closes it, once it is ${days} days old and all is well` : ''}.`,
            temporal.commands.followIncident(integrationId),
          ),
        )
    }
    return capped(found, 'Each incident is followed by its workflow.')
  },
}
