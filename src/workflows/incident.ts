import { condition, continueAsNew, log, proxyActivities, setHandler } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { IncidentInput, IncidentSight } from '../incidents/incident-jobs.ts'
import { step } from './activity-options.ts'
import { refuseUnlessFor } from './given-input.ts'
import type { IncidentState } from './messages.ts'
import { escalate, incidentState, recovered } from './messages.ts'
import { moment, showing } from './temporal-ui.ts'
import { hasLongHistory } from './workflow-end.ts'

const { followIncident, closeIncidentWhenWell } = proxyActivities<Activities>(step)

/** An open incident is looked at once a day at least. One that was not looked at for longer has lost its workflow. */
const DAY_SECONDS = 86_400

/**
 * Follows the incidents of one integration.
 *
 * Durable promise: the row is the record, and the workflow decides nothing. It sees each change of the row, whichever worker
 * dies, and it closes an incident that outlives its cause. Its id allows one follower per integration. It ends when the newest
 * incident is closed and no signal came since it was read; an incident that opens before that is followed too. A day costs
 * some ten events; continue-as-new bounds them.
 */
export async function incident(input: IncidentInput): Promise<IncidentSight | null> {
  refuseUnlessFor('integrationId', input)
  const { integrationId, carried } = input
  let state: IncidentState = { phase: 'starting', incident: null, nextLookAt: null, signals: 0 }
  let isSignalled = false
  let signals = 0
  const onSignal = (): void => {
    isSignalled = true
    signals += 1
    state = { ...state, signals }
  }
  setHandler(escalate, onSignal, {
    description: 'The incident was opened, or is worse: its row is read again. No input.',
  })
  setHandler(recovered, onSignal, { description: 'The incident may be over: its row is read again. No input.' })
  setHandler(incidentState, () => state, {
    description: 'The incident as it was last read, and when it is looked at again without a signal.',
  })

  let known = carried?.incidentId ?? null
  let isLate = false
  for (;;) {
    // From here on a signal may mean a change that the next look does not see.
    isSignalled = false
    const sight: IncidentSight | null = await (isLate
      ? closeIncidentWhenWell({ integrationId })
      : followIncident({ integrationId }))
    if (known === null || known !== sight?.incidentId) signals = Number(isSignalled)
    else if (carried !== undefined && state.phase === 'starting') signals += carried.signals
    known = sight?.incidentId ?? null

    const isOver: boolean = sight?.status !== 'open'
    const waitSeconds: number = Math.min(sight?.autoCloseInSeconds || DAY_SECONDS, DAY_SECONDS)
    const nextLookAt = isOver ? null : new Date(Date.now() + waitSeconds * 1_000).toISOString()
    state = { phase: isOver ? 'done' : 'following', incident: sight, nextLookAt, signals }
    tell(integrationId, state)
    if (isOver && !isSignalled) {
      log.info('the incident is over', { event: 'incident.over', integration: integrationId, incident: known })
      return sight
    }
    // The new run looks at once, so it misses no signal.
    if (hasLongHistory())
      await continueAsNew<typeof incident>({
        integrationId,
        ...(known === null ? {} : { carried: { incidentId: known, signals } }),
      })
    isLate =
      !isOver &&
      !(await condition(() => isSignalled, waitSeconds * 1_000, {
        summary: `incident ${known} is looked at again, and closed if all is well`,
      }))
  }
}

function tell(integrationId: number, { phase, incident: sight, nextLookAt, signals }: IncidentState): void {
  const facts = {
    Source: sight?.source,
    Severity: sight?.peakSeverity,
    Opened: sight?.openedAt,
    'Last error': sight?.lastErrorAt,
    Closed: sight?.closedAt,
    'Looked at again': nextLookAt === null ? null : moment(Date.parse(nextLookAt)),
    'Changes told': signals,
  }
  const heading =
    sight === null ? `Integration ${integrationId} has no incident` : `Incident ${sight.incidentId}: ${sight.status}`
  const hint = `\`integrations health ${integrationId}\` says what is wrong, \`integrations incidents --integration ${integrationId}\` what was.`
  showing(phase === 'done' ? `${heading}; over` : heading, facts, hint)
}
