import type { Framework } from '../../framework/context.ts'
import { dueRule } from '../../syncs/due.ts'
import { overdueIntegrations } from '../../syncs/due-queries.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, nameOf, ok, psqlCommand, warning } from './doctor-check.ts'
import { openRuns, staleIntegrations, stillOpen, unresolvedItems } from './doctor-queries.ts'

/** A dispatch comes each minute and starts three thousand; so long means that none came. */
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
    // A run that lives settles what others left open, or the one after it does; it may itself be the heir of the oldest.
    const dead = open.filter(({ integrationId }) => alive.get(integrationId) !== true)
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
            `The run of integration ${integrationId} with log ${logId}, begun at ${moment(startedAt)}, says processing, but its workflow is gone. ${
              isActive
                ? 'The next run goes on with its items if it had listed them all, and closes it if not.'
                : 'The integration is switched off, so no run goes on with it.'
            }`,
            isActive ? `integrations sync --integration ${integrationId}` : closeRun(framework, logId),
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
  async look(framework) {
    const { config, temporal, workflows } = framework
    if (!config.schedules.enabled) return ok('Not looked at: schedules.enabled is false, the host keeps the timing.')
    const due = await overdue(framework)
    const waiting: typeof due = []
    // A long run is due until its end, and a paused one keeps others from starting.
    for (const candidate of due) if (!(await workflows.isSyncRunning(candidate.id))) waiting.push(candidate)
    const [longest] = waiting
    if (longest === undefined) return ok(`No integration has been due for ${OVERDUE_SECONDS} s.`)
    return fault(
      `${due.length === MAX_LOOKED_AT ? 'At least ' : ''}${counted(waiting.length, 'integration')} should have synced and did not, the longest is ${longest.id}, due since ${moment(longest.dueSince)}: dispatch-syncs does not come round.`,
      temporal.commands.dispatchNow(),
    )
  },
}

export const syncPaused: Check = {
  name: 'sync.paused',
  // A run answers by a worker.
  needs: ['database.migrations', 'temporal.workers'],
  async look(framework) {
    const paused: Observation[] = []
    for (const { id, dueSince } of await overdue(framework))
      if ((await framework.workflows.syncProgress(id))?.isPaused === true)
        paused.push(
          warning(
            `The sync of integration ${id} is paused, and has been due since ${moment(dueSince)}: nothing new is taken in, and no other run starts.`,
            `integrations resume-sync ${id}`,
          ),
        )
    return capped(paused, 'No integration that is due is paused.')
  },
}

export const syncStale: Check = {
  name: 'sync.stale',
  needs: ['database.migrations'],
  async look({ db, tables }) {
    const stale = await staleIntegrations(db, tables, MAX_LOOKED_AT)
    return capped(
      stale.map(({ id, lastSyncedAt, since }) =>
        warning(
          `Integration ${id} is stale since ${moment(since)}: ${lastSyncedAt === null ? 'it has never had a clean run' : `its last clean run ended at ${moment(lastSyncedAt)}`}. Its runs say what fails.`,
          `integrations list-sync-runs --integration ${id}`,
        ),
      ),
      'No integration is stale.',
    )
  },
}

function overdue(framework: Framework): Promise<{ id: number; dueSince: Date }[]> {
  const { db, tables } = framework
  return overdueIntegrations(db, tables, dueRule(framework), { seconds: OVERDUE_SECONDS, limit: MAX_LOOKED_AT })
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

/** Those of backfills hold nothing. */
function skipNameless({ tables }: Framework, integrationId: number): string {
  return psqlCommand(
    `update ${nameOf(tables.syncItems)} i set status = $$skipped$$, completed_at = clock_timestamp(), updated_at = clock_timestamp() where integration_id = ${integrationId} and status = $$failed$$ and external_id is null and not exists (select 1 from ${nameOf(tables.logs)} l where l.id = i.sync_log_id and l.operation = $$backfill$$)`,
  )
}
