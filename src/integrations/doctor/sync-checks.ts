/** Syncs: runs, when they are due, and what holds their cursors. */
import { and, asc, eq, inArray, isNotNull, lt, sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { quotedName } from '../../db/sql-functions.ts'
import type { Framework } from '../../framework/context.ts'
import { dueRule, overdueIntegrations } from '../../syncs/due.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, ok, psqlCommand, secondsAgo, warning } from './doctor-check.ts'

/** A dispatch comes each minute and starts three thousand runs: an integration that waits for longer was not dispatched. */
const OVERDUE_SECONDS = 300
/** Younger runs are left alone: their workflow may be about to write the log. */
const STUCK_SECONDS = 60
/** The last runs of each integration that are looked at. */
const RUNS_DEPTH = 20

const syncStuck: Check = {
  name: 'sync.stuck',
  needs: ['database.migrations', 'temporal.reachable'],
  async look(framework) {
    const { db, tables, workflows } = framework
    const open = await openRuns(db, tables)
    const alive = new Map<number, boolean>()
    for (const { integrationId } of open)
      if (!alive.has(integrationId)) alive.set(integrationId, await workflows.isSyncRunning({ integrationId }))
    // A living run settles older open runs, or the next run does; it may itself have adopted the oldest.
    const dead = open.filter(({ integrationId }) => alive.get(integrationId) !== true)
    // A run that ended meanwhile has closed its log.
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

const syncOverdue: Check = {
  name: 'sync.overdue',
  // Without Schedules and workers all are overdue: those checks name the remedy.
  needs: ['database.migrations', 'temporal.schedules', 'temporal.workers'],
  async look(framework) {
    const { config, temporal, workflows } = framework
    if (!config.schedules.enabled) return ok('Not looked at: schedules.enabled is false, the host keeps the timing.')
    const due = await overdue(framework)
    const waiting: typeof due = []
    // A long run is due until its end, and a paused one keeps others from starting.
    for (const candidate of due)
      if (!(await workflows.isSyncRunning({ integrationId: candidate.id }))) waiting.push(candidate)
    const [longest] = waiting
    if (longest === undefined) return ok(`No integration has been due for ${OVERDUE_SECONDS} s.`)
    return fault(
      `${due.length === MAX_LOOKED_AT ? 'At least ' : ''}${counted(waiting.length, 'integration')} should have synced and did not, the longest is ${longest.id}, due since ${moment(longest.dueSince)}: dispatch-syncs does not come round.`,
      temporal.commands.dispatchNow(),
    )
  },
}

const syncPaused: Check = {
  name: 'sync.paused',
  // A worker answers for a run.
  needs: ['database.migrations', 'temporal.workers'],
  async look(framework) {
    const paused: Observation[] = []
    for (const { id, dueSince } of await overdue(framework))
      if ((await framework.workflows.syncProgress({ integrationId: id }))?.isPaused === true)
        paused.push(
          warning(
            `The sync of integration ${id} is paused, and has been due since ${moment(dueSince)}: nothing new is taken in, and no other run starts.`,
            `integrations resume-sync ${id}`,
          ),
        )
    return capped(paused, 'No integration that is due is paused.')
  },
}

const syncStale: Check = {
  name: 'sync.stale',
  needs: ['database.migrations'],
  async look({ db, tables }) {
    const stale = await staleIntegrations(db, tables)
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

const syncFailedItems: Check = {
  name: 'sync.failed_items',
  needs: ['database.migrations'],
  async look(framework) {
    const held = await unresolvedItems(framework.db, framework.tables)
    return capped(
      held.flatMap(({ integrationId, items, nameless, since }) => {
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

export const syncChecks = [syncStuck, syncOverdue, syncPaused, syncStale, syncFailedItems]

/** Ends a run as one that is given up: items that had not started go. One statement, guarded on the status. */
function closeRun({ tables }: Framework, logId: number): string {
  return psqlCommand(
    `with run as (update ${quotedName(tables.logs)} set status = $$failed$$, error = $$closed by an operator: its workflow was gone$$, updated_at = clock_timestamp() where id = ${logId} and status = $$processing$$ returning id) delete from ${quotedName(tables.syncItems)} i using run where i.sync_log_id = run.id and i.status = $$pending$$ and i.attempts = 0`,
  )
}

/** Items of backfills hold no cursor. */
function skipNameless({ tables }: Framework, integrationId: number): string {
  return psqlCommand(
    `update ${quotedName(tables.syncItems)} i set status = $$skipped$$, completed_at = clock_timestamp(), updated_at = clock_timestamp() where integration_id = ${integrationId} and status = $$failed$$ and external_id is null and not exists (select 1 from ${quotedName(tables.logs)} l where l.id = i.sync_log_id and l.operation = $$backfill$$)`,
  )
}

/** Older run logs that say `processing`. Only the last ones of each integration: their index leads to those. */
function openRuns(db: Database, { logs, integrations }: Tables) {
  const lately = db
    .select()
    .from(logs)
    .where(and(sql`${logs.integrationId} = ${integrations.id}`, eq(logs.operation, 'sync')))
    .orderBy(sql`${logs.id} desc`)
    .limit(RUNS_DEPTH)
    .as('lately')
  return db
    .select({
      logId: lately.id,
      integrationId: integrations.id,
      isActive: integrations.isActive,
      startedAt: lately.createdAt,
    })
    .from(integrations)
    .crossJoinLateral(lately)
    .where(and(eq(lately.status, 'processing'), lt(lately.createdAt, secondsAgo(STUCK_SECONDS))))
    .orderBy(asc(lately.id))
    .limit(MAX_LOOKED_AT)
}

/** The run logs of these that still say `processing`. */
async function stillOpen(db: Database, { logs }: Tables, ids: readonly number[]): Promise<Set<number>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .select({ id: logs.id })
    .from(logs)
    .where(and(inArray(logs.id, [...ids]), eq(logs.status, 'processing')))
  return new Set(rows.map((row) => row.id))
}

/** Active integrations that are marked as stale, the longest first. */
async function staleIntegrations(db: Database, { integrations }: Tables) {
  const { id, lastSyncedAt, syncStaleAlertedAt: since } = integrations
  const rows = await db
    .select({ id, lastSyncedAt, since })
    .from(integrations)
    .where(and(eq(integrations.isActive, true), isNotNull(since)))
    .orderBy(asc(since), asc(id))
    .limit(MAX_LOOKED_AT)
  return rows.map((row) => ({ ...row, since: row.since as Date }))
}

/**
 * Failed items that no later item has made up for, by integration: they hold its cursor. Items of backfills do not. Those without
 * an external id are `nameless`.
 */
async function unresolvedItems(db: Database, { syncItems, integrations, logs }: Tables) {
  const rows = await db.execute<{ id: string; items: number; nameless: number; since: string | Date }>(sql`
    select i.id, held.items, held.nameless, held.since
    from ${integrations} i
    cross join lateral (
      select count(*)::int as items, count(*) filter (where f.external_id is null)::int as nameless,
             min(f.created_at) as since
      from ${syncItems} f
      where f.integration_id = i.id and f.status = 'failed'
        and not exists (select 1 from ${logs} l where l.id = f.sync_log_id and l.operation = 'backfill')
        and not exists (
          select 1 from ${syncItems} later
          where later.integration_id = f.integration_id and later.external_id = f.external_id
            and later.event_class = f.event_class and later.id > f.id and later.status in ('success', 'skipped')
        )
    ) held
    where held.items > 0
    order by held.since limit ${MAX_LOOKED_AT}`)
  return rows.map(({ id, since, ...counts }) => ({ integrationId: Number(id), since: new Date(since), ...counts }))
}
