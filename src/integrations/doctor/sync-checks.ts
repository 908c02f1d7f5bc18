/** Syncs: runs, when they are due, and what holds their cursors. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, inArray, isNotNull, isNull, lt, sql } from 'drizzle-orm'
import { OWN_WORKFLOW_CLAIM } from '../../claims/rules.ts'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { quotedName } from '../../db/sql-functions.ts'
import { MAX_LOOKED_AT as MAX_CHARACTERS } from '../../failures/failure-rules.ts'
import { mostFrequentError } from '../../failures/waiting-items.ts'
import type { Framework } from '../../framework/context.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import type { RunMetadata } from '../../observability/log-queries.ts'
import type { HasScheduledSync } from '../../providers/contracts.ts'
import { hasBackfill } from '../../providers/contracts.ts'
import { syncSource } from '../../providers/streams.ts'
import { isDispatchFull } from '../../syncs/dispatch.ts'
import type { Overdue } from '../../syncs/due.ts'
import { declaredStreams, dueRule, overdueIntegrations, overdueStreams } from '../../syncs/due.ts'
import { streamOption, syncWords } from '../../syncs/stream-rules.ts'
import type { SyncOf } from '../../syncs/sync-jobs.ts'
import { isOfStream } from '../../syncs/sync-rows.ts'
import type { Check, Observation } from './doctor-check.ts'
import {
  capped,
  counted,
  fault,
  listOfProvider,
  MAX_FINDINGS,
  MAX_LOOKED_AT,
  moment,
  ok,
  psqlCommand,
  secondsAgo,
  warning,
} from './doctor-check.ts'

/** A dispatch comes each minute and starts 2,500 runs: what waits for longer was left out, or has 12,000 before it. */
const OVERDUE_SECONDS = 300
/** Younger runs are left alone: their workflow may be about to write the log. */
const STUCK_SECONDS = 60
/** The last runs of each integration, and of each of its streams, that are looked at. */
const RUNS_DEPTH = 20
/** Errors of each integration or stream that are compared. */
const MAX_ERRORS = 200
/** Runs that are asked side by side whether they are paused: one without a worker answers after 5 s. */
const ASKED_AT_ONCE = 50

const syncStuck: Check = {
  name: 'sync.stuck',
  needs: ['database.migrations', 'temporal.reachable'],
  async look(framework) {
    const { db, tables, workflows } = framework
    const open = await openRuns(db, tables)
    const alive = new Map<string, boolean>()
    for (const run of open)
      if (!alive.has(syncWords(run))) alive.set(syncWords(run), await workflows.isSyncRunning(run))
    // A living run settles older open runs of its stream, or the next run does; it may itself have adopted the oldest.
    const dead = open.filter((run) => alive.get(syncWords(run)) !== true)
    // A run that ended meanwhile has closed its log.
    const stuck = await stillOpen(
      db,
      tables,
      dead.map(({ logId }) => logId),
    )
    return capped(
      dead
        .filter(({ logId }) => stuck.has(logId))
        .map(({ isActive, provider, logId, startedAt, ...of }) => {
          const told = `The run of ${syncWords(of)} with log ${logId}, begun at ${moment(startedAt)}, says processing, but its workflow is gone.`
          const about = { ...of, since: startedAt }
          const found = whereDeclared(framework, provider, of.stream)
          if (found === 'nowhere' || !isActive) {
            const why =
              found === 'nowhere' ? 'Its provider no longer has this stream' : 'The integration is switched off'
            return fault(`${told} ${why}, so no run goes on with it.`, closeRun(framework, logId), about)
          }
          if (found === 'unknown') return fault(`${told} ${unknownHere(provider)}`, listOfProvider(provider), about)
          return fault(
            `${told} The next run goes on with its items if it had listed them all, and closes it if not.`,
            syncNow(of),
            about,
          )
        }),
      'Every run that says processing lives.',
    )
  },
}

/** A run does not take up what a backfill has left, and the next backfill comes only if a person starts one. */
const backfillsStuck: Check = {
  name: 'sync.backfills',
  needs: ['database.migrations', 'temporal.reachable'],
  async look(framework) {
    const { db, tables, workflows } = framework
    const dead: Awaited<ReturnType<typeof openRuns>> = []
    for (const slice of await openRuns(db, tables, 'backfill'))
      if (!(await workflows.isBackfillRunning(slice))) dead.push(slice)
    const ids = dead.map(({ logId }) => logId)
    // A backfill that ended meanwhile has closed its log.
    const stuck = await stillOpen(db, tables, ids)
    return capped(
      dead.flatMap(({ integrationId, stream, isActive, provider, logId, startedAt }) => {
        const window = stuck.get(logId)?.window as { from: string; to: string; until?: string } | undefined
        if (window === undefined) return []
        const { from, to, until = to } = window
        const of = { integrationId, stream }
        const told = `The backfill of ${syncWords(of)} with log ${logId}, begun at ${moment(startedAt)}, says processing, but its workflow is gone: what it still had to list is left, from ${from} to ${until}, and the items of this slice stay as they are.`
        const about = { ...of, since: startedAt }
        const found = whereDeclared(framework, provider, stream, hasBackfill)
        if (found === 'nowhere')
          return warning(
            `${told} Its provider no longer has a backfill of it, so no other one ends the slice.`,
            closeSlice(framework, logId),
            about,
          )
        if (!isActive)
          return warning(
            `${told} Another backfill ends the slice, once the integration is switched on.`,
            `integrations enable ${integrationId}`,
            about,
          )
        if (found === 'unknown') return warning(`${told} ${unknownHere(provider)}`, listOfProvider(provider), about)
        return warning(`${told} Another backfill ends the slice.`, `${syncNow(of)} --from ${from} --to ${until}`, about)
      }),
      'Every backfill that says processing lives.',
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
    for (const candidate of due) if (!(await workflows.isSyncRunning(ofOverdue(candidate)))) waiting.push(candidate)
    const [longest] = waiting
    if (longest === undefined) return ok(`No integration has been due for ${OVERDUE_SECONDS} s.`)
    const hasStream = waiting.some(({ stream }) => stream !== null)
    const isFull = await isDispatchFull(framework)
    const observed = isFull ? warning : fault
    return observed(
      `${due.length === MAX_LOOKED_AT ? 'At least ' : ''}${counted(waiting.length, hasStream ? 'stream or integration' : 'integration')} should have synced and did not, the longest is ${hasStream ? syncWords(ofOverdue(longest)) : longest.id}, due since ${moment(longest.dueSince)}: ${
        isFull
          ? 'dispatch-syncs starts as many runs as it may, and takes the rest at its next times.'
          : 'dispatch-syncs does not come round.'
      }`,
      temporal.commands.dispatchNow(),
      { since: longest.dueSince },
    )
  },
}

const syncPaused: Check = {
  name: 'sync.paused',
  // A worker answers for a run.
  needs: ['database.migrations', 'temporal.workers'],
  async look(framework) {
    const due = await overdue(framework)
    const paused: Observation[] = []
    for (let from = 0; from < due.length; from += ASKED_AT_ONCE) {
      const asked = due.slice(from, from + ASKED_AT_ONCE)
      const answers = await Promise.all(asked.map((late) => isPaused(framework, ofOverdue(late))))
      paused.push(...asked.filter((_, at) => answers[at] === true).map(pausedSync))
    }
    return capped(paused, 'No integration that is due is known to be paused.')
  },
}

/** False also where no worker answers for the run: its worker was just stopped, for example, and another one takes it up. */
async function isPaused({ workflows }: Framework, of: SyncOf): Promise<boolean> {
  try {
    return (await workflows.syncProgress(of))?.isPaused === true
  } catch (error) {
    if (isIntegrationsError(error, 'no_worker_answered')) return false
    throw error
  }
}

const pausedSync = ({ id, stream, dueSince }: Overdue): Observation =>
  warning(
    `The sync of ${syncWords({ integrationId: id, stream })} is paused, and has been due since ${moment(dueSince)}: nothing new is taken in, and no other run starts.`,
    `integrations resume-sync ${id}${streamOption(stream)}`,
    { integrationId: id, stream, since: dueSince },
  )

const syncStale: Check = {
  name: 'sync.stale',
  needs: ['database.migrations'],
  async look(framework) {
    const stale = await staleSyncs(framework)
    return capped(
      stale.map(({ lastSyncedAt, since, ...of }) =>
        warning(
          `${capitalised(syncWords(of))} is stale since ${moment(since)}: ${lastSyncedAt === null ? 'it has never had a clean run' : `its last clean run ended at ${moment(lastSyncedAt)}`}. Its runs say what fails.`,
          `integrations list-sync-runs --integration ${of.integrationId}${streamOption(of.stream)}`,
          { ...of, since },
        ),
      ),
      'No integration is stale.',
    )
  },
}

/** The longest first. */
async function overdue(framework: Framework): Promise<Overdue[]> {
  const { db, tables } = framework
  const rule = dueRule(framework)
  const asked = { seconds: OVERDUE_SECONDS, limit: MAX_LOOKED_AT }
  const own = await overdueIntegrations(db, tables, rule, asked)
  const declared = declaredStreams(framework)
  const named = await overdueStreams(db, tables, { declared, backoff: rule.backoff }, asked)
  const all = [...own, ...named].sort((a, b) => a.dueSince.getTime() - b.dueSince.getTime())
  return all.slice(0, MAX_LOOKED_AT)
}

const ofOverdue = ({ id, stream }: Overdue): SyncOf => ({ integrationId: id, stream })

const syncNow = ({ integrationId, stream }: SyncOf): string =>
  `integrations sync --integration ${integrationId}${streamOption(stream)}`

/** Where a run of this stream, or its backfill, may start. `unknown`: this process does not know the provider, another one may. */
function whereDeclared(
  { providers }: Framework,
  provider: string,
  stream: string | null,
  can: (source: HasScheduledSync) => boolean = () => true,
): 'here' | 'nowhere' | 'unknown' {
  const declares = providers.find(provider)
  if (declares === null) return 'unknown'
  const source = syncSource(declares, stream)
  return source !== null && can(source) ? 'here' : 'nowhere'
}

const unknownHere = (provider: string): string =>
  `This process does not know its provider "${provider}", so it starts no run.`

const capitalised = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1)

const syncFailedItems: Check = {
  name: 'sync.failed_items',
  needs: ['database.migrations'],
  async look(framework) {
    const found: Observation[] = []
    for (const held of await unresolvedItems(framework.db, framework.tables)) {
      const { items, nameless, since, provider, ...of } = held
      // No one reads the errors of those that are only counted.
      const error = found.length <= MAX_FINDINGS ? await commonestError(framework, of) : null
      const named = items - nameless
      const hold = `of ${syncWords(of)} failed and hold its cursor, the oldest since ${moment(since)}.${error === null ? '' : ` Most often: ${error}.`}`
      const about = { ...of, since }
      const declared = whereDeclared(framework, provider, of.stream)
      if (declared === 'nowhere') {
        found.push(
          warning(
            `${counted(items, 'item')} ${hold} Its provider no longer has this stream, so no run takes them again: let go of them.`,
            skipFailed(framework, of),
            about,
          ),
        )
        continue
      }
      if (named > 0)
        found.push(
          declared === 'unknown'
            ? warning(`${counted(named, 'item')} ${hold} ${unknownHere(provider)}`, listOfProvider(provider), about)
            : warning(`${counted(named, 'item')} ${hold} Mend that; another run takes them again.`, syncNow(of), about),
        )
      if (nameless > 0)
        found.push(
          warning(
            `${counted(nameless, 'item')} without an external id ${hold} No later run can make up for them: mend that, or let go of them.`,
            skipFailed(framework, of, ' and external_id is null'),
            about,
          ),
        )
    }
    return capped(found, 'No failed item holds a cursor.')
  },
}

export const syncChecks = [syncStuck, backfillsStuck, syncOverdue, syncPaused, syncStale, syncFailedItems]

/** Ends a run as one that is given up: items that had not started go. One statement, guarded on the status. */
function closeRun({ tables }: Framework, logId: number): string {
  return psqlCommand(
    `with run as (${closedLog(tables, logId)}) delete from ${quotedName(tables.syncItems)} i using run where i.sync_log_id = run.id and i.status = $$pending$$ and i.attempts = 0`,
  )
}

/** Ends a slice as the next backfill would: items that had begun fail, except those that a retry by hand holds. */
function closeSlice({ tables }: Framework, logId: number): string {
  const items = quotedName(tables.syncItems)
  return psqlCommand(
    `with run as (${closedLog(tables, logId)}), begun as (update ${items} i set status = $$failed$$, error = $$abandoned$$, claim = null, next_attempt_at = null, completed_at = clock_timestamp(), updated_at = clock_timestamp() from run where i.sync_log_id = run.id and i.status = $$processing$$ and (i.claim is null or not starts_with(i.claim, $$${OWN_WORKFLOW_CLAIM}$$))) delete from ${items} i using run where i.sync_log_id = run.id and i.status = $$pending$$`,
  )
}

/** Its listing counts as incomplete, as where a run is given up: without the deleted items no cursor may come of it. */
const closedLog = ({ logs }: Tables, id: number): string =>
  `update ${quotedName(logs)} set status = $$failed$$, error = $$closed by an operator: its workflow was gone$$, metadata = coalesce(metadata, jsonb_build_object()) || jsonb_build_object($$enumerated$$, false), updated_at = clock_timestamp() where id = ${id} and status = $$processing$$ returning id`

/** Items of backfills hold no cursor. @param which SQL: only those of them */
function skipFailed({ tables }: Framework, { integrationId, stream }: SyncOf, which = ''): string {
  const ofStream = stream == null ? 'and stream is null' : `and stream = $$${stream}$$`
  return psqlCommand(
    `update ${quotedName(tables.syncItems)} i set status = $$skipped$$, completed_at = clock_timestamp(), updated_at = clock_timestamp() where integration_id = ${integrationId} ${ofStream} and status = $$failed$$${which} and not exists (select 1 from ${quotedName(tables.logs)} l where l.id = i.sync_log_id and l.operation = $$backfill$$)`,
  )
}

/** Older run logs that say `processing`. Only the last ones of each integration: their index leads to those. */
async function openRuns(
  db: Database,
  { logs, integrations, streams }: Tables,
  operation: 'sync' | 'backfill' = 'sync',
) {
  const runsOf = (stream: SQL) => {
    const lately = db
      .select()
      .from(logs)
      .where(and(sql`${logs.integrationId} = ${integrations.id}`, eq(logs.operation, operation), stream))
      .orderBy(sql`${logs.id} desc`)
      .limit(RUNS_DEPTH)
      .as('lately')
    const shown = {
      logId: lately.id,
      integrationId: integrations.id,
      stream: lately.stream,
      isActive: integrations.isActive,
      provider: integrations.provider,
      startedAt: lately.createdAt,
    }
    const isOpen = and(eq(lately.status, 'processing'), lt(lately.createdAt, secondsAgo(STUCK_SECONDS)))
    return { lately, shown, isOpen }
  }
  const own = runsOf(isNull(logs.stream))
  const named = runsOf(sql`${logs.stream} = ${streams.stream}`)
  const found = await Promise.all([
    db
      .select(own.shown)
      .from(integrations)
      .crossJoinLateral(own.lately)
      .where(own.isOpen)
      .orderBy(asc(own.lately.id))
      .limit(MAX_LOOKED_AT),
    db
      .select(named.shown)
      .from(streams)
      .innerJoin(integrations, eq(integrations.id, streams.integrationId))
      .crossJoinLateral(named.lately)
      .where(named.isOpen)
      .orderBy(asc(named.lately.id))
      .limit(MAX_LOOKED_AT),
  ])
  return found
    .flat()
    .sort((a, b) => a.logId - b.logId)
    .slice(0, MAX_LOOKED_AT)
}

/** The metadata of those of these logs that still say `processing`. */
async function stillOpen(db: Database, { logs }: Tables, ids: readonly number[]): Promise<Map<number, RunMetadata>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .select({ id: logs.id, metadata: logs.metadata })
    .from(logs)
    .where(and(inArray(logs.id, [...ids]), eq(logs.status, 'processing')))
  return new Map(rows.map(({ id, metadata }) => [id, metadata as RunMetadata]))
}

/** Active integrations, or streams of them, that are marked as stale, the longest first. */
async function staleSyncs(framework: Framework) {
  const { integrations, streams } = framework.tables
  const rows = await framework.db
    .select({ integration: integrations, stream: streams })
    .from(integrations)
    .leftJoin(streams, and(eq(streams.integrationId, integrations.id), isNotNull(streams.syncStaleAlertedAt)))
    .where(and(eq(integrations.isActive, true), isNotNull(integrations.syncStaleAlertedAt)))
    .orderBy(
      sql`coalesce(${streams.syncStaleAlertedAt}, ${integrations.syncStaleAlertedAt})`,
      asc(integrations.id),
      asc(streams.stream),
    )
    .limit(MAX_LOOKED_AT)
  const declared = declaredStreams(framework)
  return rows.flatMap(({ integration, stream }) => {
    // What an earlier release has left does not count.
    const isLeft =
      stream !== null && !declared.some((one) => one.provider === integration.provider && one.stream === stream.stream)
    if (isLeft) return []
    const { syncStaleAlertedAt, lastSyncedAt } = stream ?? integration
    const of = { integrationId: integration.id, stream: stream?.stream ?? null }
    return [{ ...of, lastSyncedAt, since: syncStaleAlertedAt as Date }]
  })
}

/**
 * Failed items that no later item has made up for, by active integration and stream: they hold its cursor. Items of
 * backfills do not. Those without an external id are `nameless`.
 */
async function unresolvedItems(db: Database, { syncItems, integrations, logs }: Tables) {
  const rows = await db.execute<{
    id: string
    provider: string
    stream: string | null
    items: number
    nameless: number
    since: string | Date
  }>(sql`
    select i.id, i.provider, held.stream, held.items, held.nameless, held.since
    from ${integrations} i
    cross join lateral (
      select f.stream, count(*)::int as items, count(*) filter (where f.external_id is null)::int as nameless,
             min(f.created_at) as since
      from ${syncItems} f
      where f.integration_id = i.id and f.status = 'failed'
        and not exists (select 1 from ${logs} l where l.id = f.sync_log_id and l.operation = 'backfill')
        and not exists (
          select 1 from ${syncItems} later
          where later.integration_id = f.integration_id and later.external_id = f.external_id
            and later.event_class = f.event_class and later.id > f.id and later.status in ('success', 'skipped')
        )
      group by f.stream
    ) held
    where i.is_active and held.items > 0
    order by held.since limit ${MAX_LOOKED_AT}`)
  return rows.map(({ id, since, ...counts }) => ({ integrationId: Number(id), since: new Date(since), ...counts }))
}

/** Of the newest failed items; null: they have none. */
async function commonestError({ db, tables }: Framework, { integrationId, stream }: SyncOf): Promise<string | null> {
  const { syncItems } = tables
  const rows = await db.execute<{ error: string }>(sql`
    select left(error, ${MAX_CHARACTERS}) as error from ${syncItems}
    where integration_id = ${integrationId} and ${isOfStream(syncItems.stream, stream)} and status = 'failed' and error is not null
    order by id desc limit ${MAX_ERRORS}`)
  return mostFrequentError(rows.map(({ error }) => ({ error, items: 1 })))
}
