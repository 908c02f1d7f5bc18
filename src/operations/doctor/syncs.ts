import { openRuns, overdueIntegrations, stillOpen, unresolvedItems } from '../../db/queries/doctor.ts'
import type { Framework } from '../../framework.ts'
import { hasScheduledSync } from '../../providers/provider.ts'
import type { Check, Observation } from './check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, ok, warning } from './check.ts'
import { nameOf, psqlCommand } from './commands.ts'

/** A dispatch comes each minute and takes a thousand; so long means that none came. */
const OVERDUE_SECONDS = 300
/** A run's log is written by the workflow that lives: younger ones are left alone. */
const STUCK_SECONDS = 60
/** Of each integration so many runs are looked at, the last ones. */
const RUNS_DEPTH = 20

export const syncStuck: Check = {
  name: 'sync.stuck',
  needs: ['database.migrations', 'temporal.reachable'],
  async look(framework) {
    const { db, tables, workflows } = framework
    const open = await openRuns(db, tables, { seconds: STUCK_SECONDS, depth: RUNS_DEPTH, limit: MAX_LOOKED_AT })
    const alive = new Map<number, boolean>()
    for (const { integrationId } of open)
      if (!alive.has(integrationId)) alive.set(integrationId, await workflows.isSyncRunning(integrationId))
    // One workflow lives at a time, and holds the newest log.
    const newest = new Map(open.map(({ integrationId, logId }) => [integrationId, logId]))
    const dead = open.filter(
      ({ integrationId, logId }) => alive.get(integrationId) !== true || newest.get(integrationId) !== logId,
    )
    // A run that ended while we asked has closed its log.
    const stuck = await stillOpen(
      db,
      tables,
      dead.map(({ logId }) => logId),
    )
    return capped(
      dead
        .filter(({ logId }) => stuck.has(logId))
        .map(({ integrationId, isActive, logId, startedAt }) =>
          fault(
            `The run of integration ${integrationId} with log ${logId}, begun at ${moment(startedAt)}, says processing, but its workflow is gone. Its cursor has not moved: another run lists the same again.`,
            alive.get(integrationId) === true || !isActive
              ? closeRun(framework, logId)
              : `${closeRun(framework, logId)} && integrations sync --integration ${integrationId}`,
          ),
        ),
      'Every run that says processing lives.',
    )
  },
}

export const syncOverdue: Check = {
  name: 'sync.overdue',
  // Without Schedules and workers all are overdue: those checks name what mends it.
  needs: ['database.migrations', 'temporal.schedules', 'temporal.workers'],
  async look({ config, db, tables, providers, temporal, workflows }) {
    if (!config.schedules.enabled) return ok('Not looked at: schedules.enabled is false, the host keeps the timing.')
    const scheduled = providers
      .entries()
      .flatMap(([key, provider]) => (hasScheduledSync(provider) ? [{ key, provider }] : []))
    const withInterval = scheduled.filter(({ provider }) => (provider.defaultSyncInterval?.() ?? null) !== null)
    const due = await overdueIntegrations(db, tables, {
      providers: scheduled.map(({ key }) => key),
      withInterval: withInterval.map(({ key }) => key),
      seconds: OVERDUE_SECONDS,
      limit: MAX_LOOKED_AT,
    })
    const waiting: typeof due = []
    // A long run is due until its end.
    for (const candidate of due) if (!(await workflows.isSyncRunning(candidate.id))) waiting.push(candidate)
    const [longest] = waiting
    if (longest === undefined) return ok(`No integration has been due for ${OVERDUE_SECONDS} s.`)
    return fault(
      `${due.length === MAX_LOOKED_AT ? 'At least ' : ''}${counted(waiting.length, 'integration')} should have synced and did not, the longest is ${longest.id}, due since ${moment(longest.dueSince)}: dispatch-syncs does not come round.`,
      temporal.commands.dispatchNow(),
    )
  },
}

export const syncFailedItems: Check = {
  name: 'sync.failed_items',
  needs: ['database.migrations'],
  async look(framework) {
    const held = await unresolvedItems(framework.db, framework.tables, MAX_LOOKED_AT)
    return capped(
      held.flatMap((group): Observation[] => {
        const { integrationId, items, nameless, since } = group
        const named = items - nameless
        const hold = `of integration ${integrationId} failed and hold its cursor, the oldest since ${moment(since)}`
        const again = warning(
          `${counted(named, 'item')} ${hold}. Mend what they failed of; another run takes them again.`,
          `integrations sync --integration ${integrationId}`,
        )
        const letGo = warning(
          `${counted(nameless, 'item')} without an external id ${hold}; no later run can make up for them. Mend what they failed of, or let go of them.`,
          skipNameless(framework, integrationId),
        )
        return [...(named > 0 ? [again] : []), ...(nameless > 0 ? [letGo] : [])]
      }),
      'No failed item holds a cursor.',
    )
  },
}

/** As a run that is given up ends: what had not started goes. One statement, guarded on the status. */
function closeRun({ tables }: Framework, logId: number): string {
  return psqlCommand(
    `with run as (update ${nameOf(tables.logs)} set status = $$failed$$, error = $$closed by an operator: its workflow was gone$$, updated_at = clock_timestamp() where id = ${logId} and status = $$processing$$ returning id) delete from ${nameOf(tables.syncItems)} i using run where i.sync_log_id = run.id and i.status = $$pending$$ and i.attempts = 0`,
  )
}

function skipNameless({ tables }: Framework, integrationId: number): string {
  return psqlCommand(
    `update ${nameOf(tables.syncItems)} set status = $$skipped$$, completed_at = clock_timestamp(), updated_at = clock_timestamp() where integration_id = ${integrationId} and status = $$failed$$ and external_id is null`,
  )
}
