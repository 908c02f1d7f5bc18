/** Work that should have been done by now: webhooks, events, incidents, and rows to prune. */
import { and, eq, gt, isNull, lt, min, sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { quotedName } from '../../db/sql-functions.ts'
import { outboxStatus } from '../../events/outbox.ts'
import { overdueRows } from '../../retention/pruning.ts'
import type { DeletingStep } from '../../retention/queries.ts'
import { isNotErased } from '../../webhooks/queries.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, ok, secondsAgo, warning } from './doctor-check.ts'
import type { Finding } from './run-doctor.ts'
import { temporalWorkers } from './workers-check.ts'

/** A failed wake-up is tried again within a minute, and each process sweeps every 30 s (docs/behaviour/webhook-recovery.md, "Wake-ups"). */
const UNWOKEN_SECONDS = 120
/** An inbox that is well takes a webhook up within milliseconds. */
const UNWORKED_SECONDS = 15
const DAY_SECONDS = 86_400

const webhooksPending: Check = {
  name: 'webhooks.pending',
  needs: ['database.migrations', 'temporal.reachable'],
  async look({ config, db, tables, temporal }, _, earlier) {
    const { pending_timeout: timeout } = config.webhook
    const unworked = await withoutWorkers(earlier, () => lingeringWebhooks(db, tables, 'pending', UNWORKED_SECONDS))
    if (unworked !== null) return unworked
    const groups = await lingeringWebhooks(db, tables, 'pending', Math.min(UNWOKEN_SECONDS, timeout))
    const wrong: Observation[] = []
    const isRunning = groups.length > 0 && (await temporal.isInboxRunning())
    for (const { integrationId, webhooks, since } of groups) {
      const told = `${counted(webhooks, 'webhook')} of integration ${integrationId} ${webhooks === 1 ? 'is' : 'are'} pending, the oldest since ${moment(since)}`
      if (!isRunning)
        wrong.push(
          fault(`${told}, and the inbox does not run: nothing takes them up.`, temporal.commands.wakeInbox(), {
            integrationId,
            since,
          }),
        )
      else if (isLongerAgo(since, timeout))
        wrong.push(
          warning(
            `${told}; the inbox runs but has not got to them for ${timeout} s (webhook.pending_timeout).`,
            temporal.commands.askInbox(),
            { integrationId, since },
          ),
        )
    }
    const [{ since } = { since: null }] = groups
    const whenNone =
      since === null
        ? `No webhook has been pending for ${UNWOKEN_SECONDS} s.`
        : `${counted(total(groups), 'webhook')} pending for ${UNWOKEN_SECONDS} s, the oldest since ${moment(since)}; the inbox runs and works on them.`
    return capped(wrong, whenNone)
  },
}

const webhooksProcessing: Check = {
  name: 'webhooks.processing',
  needs: ['database.migrations', 'temporal.reachable'],
  async look({ config, db, tables, temporal }, _, earlier) {
    const seconds = config.webhook.processing_timeout
    const unworked = await withoutWorkers(earlier, () => lingeringWebhooks(db, tables, 'processing', UNWORKED_SECONDS))
    if (unworked !== null) return unworked
    const groups = await lingeringWebhooks(db, tables, 'processing', seconds)
    const wrong: Observation[] = []
    const isRunning = groups.length > 0 && (await temporal.isInboxRunning())
    for (const { integrationId, webhooks, since } of groups) {
      const told = `${counted(webhooks, 'webhook')} of integration ${integrationId} ${webhooks === 1 ? 'has' : 'have'} been processing for longer than ${seconds} s (webhook.processing_timeout), the oldest since ${moment(since)}`
      // A living inbox holds rows with slow handlers, and takes up the rows of a dead worker.
      if (isRunning)
        wrong.push(
          warning(`${told}; the inbox runs and may hold them.`, temporal.commands.askInbox(), { integrationId, since }),
        )
      else
        wrong.push(
          fault(
            `${told}, and the inbox does not run. Recovery takes them up, and their handlers run again.`,
            'integrations recover-webhooks',
            { integrationId, since },
          ),
        )
    }
    return capped(wrong, `No webhook has been processing for ${seconds} s.`)
  },
}

const webhooksFailed: Check = {
  name: 'webhooks.failed',
  needs: ['database.migrations'],
  async look({ db, tables }) {
    const groups = await lateFailedWebhooks(db, tables)
    return capped(
      groups.map(({ integrationId, webhooks, since }) =>
        warning(
          `${counted(webhooks, 'webhook')} of integration ${integrationId} failed in the last 24 hours, the first at ${moment(since)}. Mend why, then \`integrations replay-webhook ID\`; to give one up, \`integrations dismiss-webhook ID\`.`,
          // As JSON the errors are whole.
          `integrations list-webhooks --integration ${integrationId} --status failed --limit 20 --json`,
          { integrationId, since },
        ),
      ),
      'None failed in the last 24 hours.',
    )
  },
}

export const webhookChecks = [webhooksPending, webhooksProcessing, webhooksFailed]

/** Where workers take no tasks, webhooks wait for that reason: the finding of the workers names what mends it. Null: they take them. */
async function withoutWorkers(
  earlier: readonly Finding[] = [],
  lingering: () => Promise<readonly WebhookGroup[]>,
): Promise<Observation | null> {
  const workers = earlier.find(({ check, remedy }) => check === temporalWorkers.name && remedy !== null)
  if (workers?.remedy == null) return null
  const groups = await lingering()
  const [oldest] = groups
  if (oldest === undefined) return null
  return warning(
    `${counted(total(groups), 'webhook')} of ${counted(groups.length, 'integration')} stand, the oldest since ${moment(oldest.since)}: see ${temporalWorkers.name}.`,
    workers.remedy,
    { since: oldest.since },
  )
}

const total = (groups: readonly WebhookGroup[]): number => groups.reduce((sum, { webhooks }) => sum + webhooks, 0)

function isLongerAgo(at: Date, seconds: number): boolean {
  return at.getTime() < Date.now() - seconds * 1_000
}

/** A pump delivers a row within 90 s of its claim. If not it has died, and its rows are set apart. */
const HELD_SECONDS = 90 + UNWOKEN_SECONDS
/** Many events may line up behind a target that is down. */
const LINED_UP_SECONDS = 15 * 60

const eventsWaiting: Check = {
  name: 'events.waiting',
  // Without a worker all events wait: that check names the remedy.
  needs: ['database.migrations', 'temporal.workers'],
  async look({ db, tables, temporal }) {
    const { events, since } = await lateEvents(db, tables)
    if (since === null) return ok(`No event has waited for ${UNWOKEN_SECONDS} s to be told to listeners and targets.`)
    const told = `${counted(events, 'event')} ${events === 1 ? 'waits' : 'wait'} to be told to queued listeners and notification targets, the oldest since ${moment(since)}`
    if (!(await temporal.isOutboxRunning()))
      return fault(`${told}, and the outbox does not run: nothing takes them up.`, temporal.commands.wakeOutbox())
    if (!isLongerAgo(since, LINED_UP_SECONDS)) return ok(`${told}; the outbox works on them.`)
    return warning(`${told}; the outbox runs but has not got to them.`, temporal.commands.askOutbox())
  },
}

const eventsGivenUp: Check = {
  name: 'events.given_up',
  needs: ['database.migrations'],
  async look(framework) {
    const { givenUp } = await outboxStatus(framework, { limit: MAX_LOOKED_AT })
    const listeners = [...new Set(givenUp.map(({ listener }) => listener))]
    return capped(
      listeners.flatMap((listener) => {
        const deliveries = givenUp.filter((delivery) => delivery.listener === listener)
        const [newest] = deliveries
        const oldest = deliveries.at(-1)
        if (newest === undefined || oldest === undefined) return []
        const many = `${givenUp.length === MAX_LOOKED_AT ? 'At least ' : ''}${counted(deliveries.length, 'event')}`
        return [
          warning(
            `${many} of the last 7 days could not be told to ${listener} and ${deliveries.length === 1 ? 'was' : 'were'} given up, the first of ${moment(oldest.createdAt)}; the last, ${newest.name}, failed with: ${newest.error}. Mend that first; then all get another ten tries.`,
            'integrations notifications retry',
            { since: oldest.createdAt },
          ),
        ]
      }),
      'No event of the last 7 days was given up.',
    )
  },
}

/** Each dispatch, once a minute, tells the workflows of those that changed unseen (docs/behaviour/incidents.md). */
const UNTOLD_SECONDS = 300
/** A workflow looks once a day; after 26 h a dispatch wakes it. */
const LOOKS_EVERY_SECONDS = 27 * 3_600

const incidentsUnseen: Check = {
  name: 'incidents.unseen',
  // Without workers no incident is seen: that check names the remedy.
  needs: ['database.migrations', 'temporal.workers'],
  async look({ config, db, tables, temporal }) {
    const unseen = await unseenIncidents(db, tables)
    const found: Observation[] = []
    for (const { id, integrationId, status, openedAt, since } of unseen) {
      const told = `Incident ${id} of integration ${integrationId}, ${status === 'open' ? `open since ${moment(openedAt)}` : 'closed'}, has not been seen by its workflow since ${moment(since)}`
      const days = config.pruning.incidents_stale_after_days
      if (await temporal.isIncidentFollowed(integrationId))
        found.push(
          warning(`${told}, which runs.`, temporal.commands.askIncident(integrationId), { integrationId, since }),
        )
      else
        found.push(
          warning(
            `${told}, which is gone${status === 'open' ? `: only pruning closes it, once it is ${days} days old and all is well` : ''}.`,
            temporal.commands.followIncident(integrationId),
            { integrationId, since },
          ),
        )
    }
    return capped(found, 'Each incident is followed by its workflow.')
  },
}

/** Pruning comes once a day, and the next one makes up for one that was missed. */
const GRACE_DAYS = 2

const PRUNED: Readonly<Record<DeletingStep, string>> = {
  requests: 'requests',
  logs: 'logs',
  idempotency_keys: 'idempotency keys',
  written_records: 'notes of written records',
  sync_items: 'completed items',
  incidents: 'closed incidents',
  cache: 'expired cache rows',
  events: 'delivered events',
  webhooks: 'settled webhooks',
  deliveries: 'deliveries of many events',
  audit: 'entries of the audit',
  rollups: 'sums behind the charts',
}

const pruningOverdue: Check = {
  name: 'pruning.overdue',
  // Without Schedules and workers nothing is pruned: those checks name the remedy.
  needs: ['database.migrations', 'temporal.schedules', 'temporal.workers'],
  async look(framework) {
    const overdue = await overdueRows(framework, GRACE_DAYS)
    const rows = overdue.map(({ step, oldestAt }) => `${PRUNED[step]} since ${moment(oldestAt)}`)
    if (rows.length === 0) return ok(`No row is there that should have been pruned ${GRACE_DAYS} days ago.`)
    return warning(
      `Rows that should have been pruned ${GRACE_DAYS} days ago are still there: ${rows.join(', ')}. Pruning comes once a day, by its Schedule or the host's; the command prunes now.`,
      'integrations prune',
    )
  },
}

/** Some hundred megabytes, and a year of a quiet deployment. */
const MANY_ROWS = 100_000

/** Tables that grow for ever unless their key is set, and what it is for. */
const UNBOUNDED = [
  { key: 'webhooks_days', table: 'webhooks', rows: 'webhooks' },
  { key: 'audit_days', table: 'audit', rows: 'entries of the audit' },
] as const

const pruningUnbounded: Check = {
  name: 'pruning.unbounded',
  needs: ['database.migrations'],
  async look({ db, tables, config: { pruning } }) {
    const grown: Observation[] = []
    for (const { key, table, rows: named } of UNBOUNDED) {
      if (pruning[key] !== null) continue
      const rows = await rowsAbout(db, tables[table])
      if (rows < MANY_ROWS) continue
      grown.push(
        warning(
          `About ${rows} ${named} are stored, and none is ever pruned: pruning.${key} is null. Set it to the days that they are needed for.`,
          'integrations prune --dry-run',
        ),
      )
    }
    return capped(grown, 'No table grows for ever.')
  },
}

/** As the last analysis has it: to count would take long where it matters. */
async function rowsAbout(db: Database, table: Tables['webhooks' | 'audit']): Promise<number> {
  const [row] = await db.execute<{ rows: number }>(
    sql`select greatest(reltuples, 0)::bigint::int as rows from pg_class where oid = ${quotedName(table)}::regclass`,
  )
  return row?.rows ?? 0
}

export const backlogChecks = [incidentsUnseen, eventsWaiting, eventsGivenUp, pruningOverdue, pruningUnbounded]

interface WebhookGroup {
  readonly integrationId: number
  readonly webhooks: number
  /** The last change of the row that has lingered longest, or when the first of them failed. */
  readonly since: Date
}

/** Webhooks that have been in a status for longer than `seconds`, by integration, the oldest first. */
async function lingeringWebhooks(
  db: Database,
  { webhooks, integrations }: Tables,
  status: 'pending' | 'processing',
  seconds: number,
): Promise<WebhookGroup[]> {
  const since = min(webhooks.updatedAt)
  const rows = await db
    .select({ integrationId: webhooks.integrationId, webhooks: sql<number>`count(*)::int`, since })
    .from(webhooks)
    .innerJoin(integrations, eq(integrations.id, webhooks.integrationId))
    .where(
      and(
        eq(webhooks.status, status),
        lt(webhooks.updatedAt, secondsAgo(seconds)),
        // Webhooks of an integration that is switched off wait on purpose: enabling it wakes the inbox. Recovery, too, leaves
        // those of one that its health disabled.
        sql`${integrations.healthStatus} <> 'disabled'`,
        status === 'pending' ? sql`${integrations.isActive}` : undefined,
      ),
    )
    .groupBy(webhooks.integrationId)
    .orderBy(since)
    .limit(MAX_LOOKED_AT)
  return rows as WebhookGroup[]
}

/** Webhooks that failed in the last 24 hours, and are neither dismissed nor erased, by integration, the most first. */
export async function lateFailedWebhooks(db: Database, { webhooks }: Tables): Promise<WebhookGroup[]> {
  const count = sql<number>`count(*)::int`
  const rows = await db
    .select({ integrationId: webhooks.integrationId, webhooks: count, since: min(webhooks.processedAt) })
    .from(webhooks)
    .where(
      and(
        eq(webhooks.status, 'failed'),
        isNull(webhooks.dismissedAt),
        gt(webhooks.processedAt, secondsAgo(DAY_SECONDS)),
        isNotErased(webhooks),
      ),
    )
    .groupBy(webhooks.integrationId)
    .orderBy(sql`${count} desc`)
    .limit(MAX_LOOKED_AT)
  return rows as WebhookGroup[]
}

/**
 * Events that are due and that no pump has claimed in time, or whose claim is older than it may get. `since`: when the one that
 * has waited longest was due, or was last claimed.
 */
async function lateEvents(db: Database, { events }: Tables): Promise<{ events: number; since: Date | null }> {
  const [row] = await db.execute<{ events: number; since: string | Date | null }>(sql`
    select count(*)::int as events, min(late.since) as since
    from (
      select due_at as since from ${events}
      where delivered_at is null and claim is null and due_at < ${secondsAgo(UNWOKEN_SECONDS)}
      union all
      select updated_at from ${events}
      where delivered_at is null and claim is not null and updated_at < ${secondsAgo(HELD_SECONDS)}
    ) late`)
  return { events: row?.events ?? 0, since: row?.since == null ? null : new Date(row.since) }
}

/**
 * Incidents whose workflow has not seen a change in time, or has not looked at an open one. `since`: the change that it has not
 * seen, or when it last looked.
 */
async function unseenIncidents(db: Database, { incidents }: Tables) {
  const rows = await db.execute<{
    id: string
    integration_id: string
    status: 'open' | 'closed'
    opened_at: string | Date
    since: string | Date
  }>(sql`
    select id, integration_id, status, opened_at, updated_at as since from ${incidents}
    where (followed_at is null or followed_at < updated_at) and updated_at < ${secondsAgo(UNTOLD_SECONDS)}
    union all
    select id, integration_id, status, opened_at, followed_at as since from ${incidents}
    where status = 'open' and followed_at >= updated_at and followed_at < ${secondsAgo(LOOKS_EVERY_SECONDS)}
    order by since, id limit ${MAX_LOOKED_AT}`)
  return rows.map((row) => ({
    id: Number(row.id),
    integrationId: Number(row.integration_id),
    status: row.status,
    openedAt: new Date(row.opened_at),
    since: new Date(row.since),
  }))
}
