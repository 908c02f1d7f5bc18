/** The life of one record of each kind, as the rows tell it. Rule: docs/behaviour/explain.md, "The life of a record". */
import type { SQL } from 'drizzle-orm'
import { and, asc, count, desc, eq, getTableColumns, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Limits } from '../access/rules.ts'
import { classOfCall } from '../calls/failure-class-rules.ts'
import { pageOfRequests } from '../calls/request-list.ts'
import { belongsToThem } from '../db/integrations-of.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import { findStoredEvent } from '../events/event-list.ts'
import type { Framework } from '../framework/context.ts'
import { searchedSince } from '../framework/list-filter.ts'
import { annotationsOf } from '../incidents/list.ts'
import { madeUpForBy } from '../syncs/items/item-queries.ts'
import { PSEUDO_HEADER } from '../webhooks/rules.ts'
import { errorsOfIncident } from './incident-errors.ts'
import type { LifeLine, RecordRef } from './life-lines.ts'
import { because, line, logColumns, logText, mappingText, requestColumns, requestText, short } from './life-lines.ts'
import { pauseOfRun, pausesOfIntegration } from './pause-lines.ts'
import type { RowKind } from './reference-rules.ts'
import { modelIn } from './reference-rules.ts'

/** Where a record comes from. */
export interface Origin {
  readonly how:
    | 'delivery' // the provider sent it
    | 'reconciliation' // the provider's list had it
    | 'schedule'
    | 'request' // by a person, or by the host
    | 'retry'
    | 'work' // of the webhook, item, run, operation or event that it links
    | 'calls' // the failures of calls
    | 'host' // code of the host, outside of all work of ours
  readonly text: string
  readonly link: RecordRef | null
}

export interface Life {
  readonly ref: RecordRef
  readonly status: string | null
  readonly origin: Origin
  /** In any order. */
  readonly lines: readonly LifeLine[]
  readonly caused: readonly RecordRef[]
  /** Other records that it names: the same external id, the host's row. */
  readonly related: readonly RecordRef[]
  /** More was caused than is shown. */
  readonly more: boolean
}

/** Of each kind that a record has caused. */
const MAX_CAUSED = 25

/** The integration and the origin of a row alone: a step of the chain. */
export interface Head {
  readonly ref: RecordRef
  readonly origin: Origin
}

interface Reader {
  head(framework: Framework, id: number): Promise<Head | null>
  life(framework: Framework, id: number): Promise<Life | null>
}

/** Null: there is no such row. */
export const lifeOfRow = (framework: Framework, kind: RowKind, id: number): Promise<Life | null> =>
  READERS[kind].life(framework, id)
export const headOfRow = (framework: Framework, kind: RowKind, id: number): Promise<Head | null> =>
  READERS[kind].head(framework, id)

const HOST: Origin = { how: 'host', text: 'code of the host, outside of a webhook, a sync or an event', link: null }

/** What an origin column names. */
function workOf(origin: string | null, integrationId: number): Origin | null {
  const [, kind, id] = /^(webhook|item|run|log|event|incident):(\d+)$/.exec(origin ?? '') ?? []
  if (kind === undefined) return null
  const link = { kind: kind as RowKind, id: Number(id), integrationId }
  return { how: 'work', text: `the work of ${kind} ${id}`, link }
}

/** Reads both from one row: of the columns that its life needs. */
function reader<Row extends { readonly id: number; readonly integrationId: number }>(
  kind: RowKind,
  find: (framework: Framework, id: number) => PromiseLike<Row | null | undefined>,
  originOf: (row: Row) => Origin,
  rest: (framework: Framework, row: Row, ref: RecordRef) => Promise<Omit<Life, 'ref' | 'origin'>>,
): Reader {
  const refOf = ({ id, integrationId }: Row): RecordRef => ({ kind, id, integrationId })
  return {
    async head(framework, id) {
      const row = await find(framework, id)
      return row ? { ref: refOf(row), origin: originOf(row) } : null
    },
    async life(framework, id) {
      const row = await find(framework, id)
      if (!row) return null
      const ref = refOf(row)
      return { ref, origin: originOf(row), ...(await rest(framework, row, ref)) }
    },
  }
}

/** What was written by the work of a record. */
async function causedBy(framework: Framework, ref: RecordRef) {
  const { db, tables } = framework
  const { requests, logs, mappings } = tables
  const of = (table: Originated) => cameFrom(table, ref)
  const limit = MAX_CAUSED + 1
  const [calls, operations, mapped, told] = await Promise.all([
    db.select(requestColumns(tables)).from(requests).where(of(requests)).orderBy(desc(requests.id)).limit(limit),
    db.select(logColumns(tables)).from(logs).where(of(logs)).orderBy(desc(logs.id)).limit(limit),
    db.select().from(mappings).where(of(mappings)).orderBy(desc(mappings.id)).limit(limit),
    eventsOf(framework, ref),
  ])
  return bounded(
    linesOf('request', calls, requestText),
    linesOf('log', operations, logText),
    linesOf('mapping', mapped, mappingText),
    told,
  )
}

/** Events that tell of a record, or that its work has sent. */
async function eventsOf({ db, tables: { events } }: Framework, ref: RecordRef): Promise<LifeLine[]> {
  const { integrationId } = ref
  const told = await db
    .select({ id: events.id, name: events.name, createdAt: events.createdAt })
    .from(events)
    .where(cameFrom(events, ref))
    .orderBy(desc(events.id))
    .limit(MAX_CAUSED + 1)
  return told.flatMap(({ id, name, createdAt }) =>
    line(createdAt, `event ${name}`, { kind: 'event', id, integrationId }),
  )
}

type Originated = { readonly origin: PgColumn; readonly integrationId: PgColumn }

const cameFrom = (table: Originated, { kind, id, integrationId }: RecordRef): SQL | undefined =>
  and(eq(table.origin, `${kind}:${id}`), eq(table.integrationId, integrationId))

/** A line for each row, which is a record of its own. */
function linesOf<Row extends { readonly id: number; readonly integrationId: number; readonly createdAt: Date }>(
  kind: RowKind,
  rows: readonly Row[],
  textOf: (row: Row) => string,
): LifeLine[] {
  return rows.flatMap((row) => line(row.createdAt, textOf(row), { kind, id: row.id, integrationId: row.integrationId }))
}

/** Each list was asked for one more than is shown. */
function bounded(...lists: readonly (readonly LifeLine[])[]): {
  lines: LifeLine[]
  caused: RecordRef[]
  more: boolean
} {
  const lines = lists.flatMap((list) => list.slice(0, MAX_CAUSED))
  return {
    lines,
    caused: lines.flatMap(({ link }) => (link === null ? [] : [link])),
    more: lists.some((list) => list.length > MAX_CAUSED),
  }
}

/** @returns where the other events of its delivery are found */
const partText = ({ partOf, part }: Pick<WebhookRow, 'partOf' | 'part'>): string =>
  partOf === null ? '' : `, event ${part} of delivery ${partOf} (list-webhooks --delivery ${partOf})`

/** Without an attempt: one that coalesces, or that was erased. */
function endOf({ status, attempts }: Pick<WebhookRow, 'status' | 'attempts'>): string {
  if (attempts > 0) return `${status} in attempt ${attempts}`
  return status === 'processed'
    ? 'processed without an attempt: a newer one of its ordering key took its place'
    : `${status} without an attempt`
}

const webhook = reader(
  'webhook',
  async ({ db, tables: { webhooks, deliveries } }, id) => {
    const { payload: _payload, headers: _headers, ...columns } = getTableColumns(webhooks)
    const source = sql<string | null>`${webhooks.headers} #>> ${`{${PSEUDO_HEADER.source},0}`}::text[]`
    return (
      await db
        .select({ ...columns, source, whole: deliveries.deliveryId, parts: deliveries.parts })
        .from(webhooks)
        .leftJoin(deliveries, eq(deliveries.id, webhooks.partOf))
        .where(eq(webhooks.id, id))
    )[0]
  },
  ({ source, deliveryId, whole, part, parts }): Origin =>
    whole !== null
      ? { how: 'delivery', text: `event ${part} of ${parts} of the provider's delivery ${short(whole)}`, link: null }
      : source === null
        ? { how: 'delivery', text: `the provider's delivery ${short(deliveryId)}`, link: null }
        : { how: 'reconciliation', text: `found in the provider's list: delivery ${short(deliveryId)}`, link: null },
  async (framework, row, ref) => {
    const { lines, ...caused } = await causedBy(framework, ref)
    const type = row.eventType === null ? '' : ` of type ${short(row.eventType)}`
    return {
      ...caused,
      status: row.status,
      lines: [
        ...line(row.createdAt, `delivery ${short(row.deliveryId)}${type} stored${partText(row)}`),
        ...lines,
        ...line(row.processedAt, `${endOf(row)}${because(row.error)}`),
        ...line(row.dismissedAt, 'dismissed'),
      ],
      related: [],
    }
  },
)

const item = reader(
  'item',
  async ({ db, tables: { syncItems } }, id) => {
    const { payload: _payload, checkpointValue: _checkpoint, claim: _claim, ...columns } = getTableColumns(syncItems)
    const by = sql<string | null>`case when ${syncItems}.status = 'failed' then ${madeUpForBy(syncItems)} end`
    return (
      await db
        .select({ ...columns, by })
        .from(syncItems)
        .where(eq(syncItems.id, id))
    )[0]
  },
  ({ syncLogId, integrationId }): Origin => {
    if (syncLogId === null) return { how: 'work', text: 'a run whose row is pruned', link: null }
    return { how: 'work', text: `listed by run ${syncLogId}`, link: { kind: 'run', id: syncLogId, integrationId } }
  },
  async (framework, row, ref) => {
    const { db, tables } = framework
    const { integrationId, externalId } = row
    const [{ lines, ...caused }, mapped] = await Promise.all([
      causedBy(framework, ref),
      externalId === null ? [] : mappingsOf(framework, { integrationId, externalId }),
    ])
    const named = externalId === null ? '' : `, external id ${JSON.stringify(short(externalId))}`
    const madeUp = row.by === null ? null : ({ kind: 'item', id: Number(row.by), integrationId } as const)
    const later =
      madeUp === null ? [] : await db.select().from(tables.syncItems).where(eq(tables.syncItems.id, madeUp.id))
    return {
      ...caused,
      status: row.nextAttemptAt === null ? row.status : 'waiting',
      lines: [
        ...line(row.createdAt, `listed as ${row.eventClass}${named}`),
        ...lines,
        ...line(row.nextAttemptAt, `next attempt is due, after ${row.attempts}${because(row.lastError)}`),
        ...line(row.completedAt, `${row.status} after ${row.attempts} attempts${because(row.error)}`),
        ...later.flatMap(({ createdAt, id }) => line(createdAt, `a later run listed it again as item ${id}`, madeUp)),
      ],
      related: [
        ...(externalId === null ? [] : [{ kind: 'external', id: externalId, integrationId } as const]),
        ...(madeUp === null ? [] : [madeUp]),
        ...mapped.flatMap(({ id, internalType, internalId }) => [
          { kind: 'mapping', id, integrationId } as const,
          { kind: 'model', id: `${internalType}:${internalId}`, integrationId: null } as const,
        ]),
      ],
    }
  },
)

async function mappingsOf(
  { db, tables: { mappings } }: Framework,
  { integrationId, externalId }: { readonly integrationId: number; readonly externalId: string },
) {
  return db
    .select()
    .from(mappings)
    .where(and(eq(mappings.integrationId, integrationId), eq(mappings.externalId, externalId)))
    .orderBy(asc(mappings.id))
    .limit(MAX_CAUSED)
}

const findLogHead = async ({ db, tables }: Framework, id: number) => {
  const { logs } = tables
  const about = sql<Record<string, unknown> | null>`case when jsonb_typeof(${logs.metadata}) = 'object'
    then ${logs.metadata} - 'request_ids' - 'bookmark' - 'cursor_before' end`
  return (
    await db
      .select({ ...logColumns(tables), about })
      .from(logs)
      .where(eq(logs.id, id))
  )[0]
}
type LogHead = NonNullable<Awaited<ReturnType<typeof findLogHead>>>

const RUNS: readonly string[] = ['sync', 'backfill']

function originOfRun({ operation, about }: LogHead): Origin {
  if (about?.dispatched === true) return { how: 'schedule', text: 'the integration was due', link: null }
  const what = operation === 'backfill' ? 'a backfill was started' : 'a sync was started'
  return { how: 'request', text: `${what} by a person or by the host`, link: null }
}

async function restOfRun(framework: Framework, row: LogHead, ref: RecordRef) {
  const { db, tables } = framework
  const { syncItems } = tables
  const { integrationId } = row
  const items = (status: SQL) =>
    db
      .select({
        id: syncItems.id,
        at: sql<string>`coalesce(completed_at, created_at)`,
        status: sql<string>`case when next_attempt_at is null then status else 'waiting' end`,
        error: sql<string | null>`coalesce(error, last_error)`,
      })
      .from(syncItems)
      .where(and(eq(syncItems.syncLogId, row.id), status))
      // The sum: else a plan may walk back from the newest item of all, past those of later runs.
      .orderBy(sql`${syncItems.id} + 0 desc`)
      .limit(MAX_CAUSED + 1)
  const [{ lines, ...caused }, pause, trouble, failed, others] = await Promise.all([
    causedBy(framework, ref),
    row.status === 'processing' && row.operation === 'sync' ? pauseOfRun(framework, row) : [],
    mostCommonError(framework, row.id),
    items(sql`${syncItems.status} = 'failed'`),
    items(sql`${syncItems.status} in ('pending', 'processing', 'success', 'skipped')`),
  ])
  const shown = bounded(
    ...[failed, others].map((list) =>
      list.flatMap(({ id, at, status, error }) =>
        line(new Date(at), `item ${id} ${status}${because(error)}`, { kind: 'item', id, integrationId }),
      ),
    ),
  )
  const listed = typeof row.about?.listed === 'number' ? `, ${row.about.listed} items listed` : ''
  return {
    status: row.status,
    lines: [
      ...line(row.createdAt, `${row.operation} run began`),
      ...lines,
      ...shown.lines,
      ...trouble,
      ...pause,
      ...ended(row, `${row.operation} run ended: ${row.status}${listed}${because(row.error)}`),
    ],
    caused: [...caused.caused, ...shown.caused],
    more: caused.more || shown.more,
    related: [],
  }
}

/** Of the items that wait or have failed, also of those that a later run has made up for; when the last of them met it. */
async function mostCommonError({ db, tables: { syncItems } }: Framework, runId: number): Promise<LifeLine[]> {
  const error = sql<string>`coalesce(${syncItems.error}, ${syncItems.lastError})`
  const waiting = sql<number>`count(*) filter (where ${syncItems.nextAttemptAt} is not null)`.mapWith(Number)
  const [found] = await db
    .select({ error, waiting, items: count(), at: sql<string>`max(${syncItems.updatedAt})` })
    .from(syncItems)
    .where(
      and(
        eq(syncItems.syncLogId, runId),
        sql`${syncItems.status} in ('processing', 'failed')`,
        sql`${error} is not null`,
      ),
    )
    .groupBy(error)
    .orderBy(desc(count()), error)
    .limit(1)
  if (found === undefined) return []
  const kinds = `${found.waiting} waiting, ${found.items - found.waiting} failed`
  return line(new Date(found.at), `most common error of its items (${kinds})${because(found.error)}`)
}

function ended({ createdAt, durationMs, status }: LogHead, text: string): LifeLine[] {
  if (durationMs === null || status === 'processing') return []
  return line(new Date(createdAt.getTime() + durationMs), text)
}

const run = reader(
  'run',
  async (framework, id) => {
    const row = await findLogHead(framework, id)
    return row !== undefined && RUNS.includes(row.operation) ? row : null
  },
  originOfRun,
  restOfRun,
)

const log = reader(
  'log',
  findLogHead,
  (row): Origin => {
    if (RUNS.includes(row.operation)) return originOfRun(row)
    const work = workOf(row.origin, row.integrationId)
    if (work !== null) return work
    if (row.parentId !== null)
      return {
        how: 'work',
        text: `part of log ${row.parentId}`,
        link: { kind: 'log', id: row.parentId, integrationId: row.integrationId },
      }
    return row.operation === 'operator' ? { how: 'request', text: short(row.summary), link: null } : HOST
  },
  async (framework, row, ref) => {
    if (RUNS.includes(row.operation)) return restOfRun(framework, row, { ...ref, kind: 'run' })
    const { db, tables } = framework
    const { logs } = tables
    const [{ lines, ...caused }, parts] = await Promise.all([
      causedBy(framework, ref),
      db
        .select(logColumns(tables))
        .from(logs)
        .where(eq(logs.parentId, row.id))
        .orderBy(desc(logs.id))
        .limit(MAX_CAUSED + 1),
    ])
    const shown = bounded(linesOf('log', parts, logText))
    // What an operation did, its parts among it, is told once.
    const known = new Set(caused.caused.map(({ kind, id }) => `${kind}:${id}`))
    const isNew = ({ kind, id }: RecordRef): boolean => !known.has(`${kind}:${id}`)
    return {
      status: row.status,
      lines: [
        ...line(row.createdAt, logText(row)),
        ...lines,
        ...shown.lines.filter(({ link }) => link === null || isNew(link)),
        ...ended(row, `${row.operation} ended: ${row.status}`),
      ],
      caused: [...caused.caused, ...shown.caused.filter(isNew)],
      more: caused.more || shown.more,
      related:
        row.externalId === null ? [] : [{ kind: 'external', id: row.externalId, integrationId: row.integrationId }],
    }
  },
)

const request = reader(
  'request',
  async ({ db, tables }, id) =>
    (await db.select(requestColumns(tables)).from(tables.requests).where(eq(tables.requests.id, id)))[0],
  ({ retryOf, origin, integrationId }): Origin => {
    if (retryOf !== null)
      return {
        how: 'retry',
        text: `a later attempt of request ${retryOf}`,
        link: { kind: 'request', id: retryOf, integrationId },
      }
    return workOf(origin, integrationId) ?? HOST
  },
  async ({ db, tables }, row) => {
    const { requests, mappings } = tables
    const { integrationId, relatedType, relatedId, idempotencyKey } = row
    const [retries, mapped] = await Promise.all([
      db
        .select(requestColumns(tables))
        .from(requests)
        .where(and(eq(requests.retryOf, row.id), eq(requests.integrationId, integrationId)))
        .orderBy(asc(requests.id))
        .limit(MAX_CAUSED + 1),
      relatedType === null || relatedId === null
        ? []
        : db
            .select()
            .from(mappings)
            .where(
              and(
                eq(mappings.internalType, relatedType),
                eq(mappings.internalId, String(relatedId)),
                eq(mappings.integrationId, integrationId),
              ),
            )
            .limit(1),
    ])
    const { lines, ...caused } = bounded(linesOf('request', retries, (retry) => `again: ${requestText(retry)}`))
    const known = row.providerRequestId === null ? '' : `; the provider calls it ${short(row.providerRequestId)}`
    const about = relatedType === null ? '' : `; for ${short(relatedType)} ${relatedId}`
    const served = row.cacheHits + row.staleHits
    const cached = served === 0 ? '' : `; its answer was served again ${served} times`
    return {
      ...caused,
      status: classOfCall(row.failureClass, row.error) ?? 'success',
      lines: [...line(row.createdAt, `${requestText(row)}${about}${known}${cached}`), ...lines],
      related: [
        ...mapped.map(
          ({ internalType, internalId }) =>
            ({ kind: 'model', id: `${internalType}:${internalId}`, integrationId: null }) as const,
        ),
        ...(idempotencyKey === null ? [] : [{ kind: 'key', id: idempotencyKey, integrationId } as const]),
      ],
    }
  },
)

const incident = reader(
  'incident',
  async ({ db, tables: { incidents } }, id) => (await db.select().from(incidents).where(eq(incidents.id, id)))[0],
  ({ source, reason }): Origin => ({ how: 'calls', text: `opened by ${source}: ${reason}`, link: null }),
  async (framework, row, ref) => {
    // No work is an incident's own: events alone have it as their origin.
    const [told, errors] = await Promise.all([eventsOf(framework, ref), errorsOfIncident(framework, row)])
    const { lines, ...caused } = bounded(told)
    return {
      ...caused,
      status: row.status,
      lines: [
        ...errors,
        ...line(row.openedAt, `opened by ${row.source}: ${row.reason}; at worst ${row.peakSeverity}`),
        ...lines,
        ...line(row.lastErrorAt, 'last failure'),
        ...line(row.acknowledgedAt, `acknowledged by ${row.acknowledgedBy}`),
        ...line(row.snoozedUntil, `silenced until then by ${row.snoozedBy}`),
        ...annotationsOf(row.annotations).flatMap(({ at, by, text }) => line(at, `${by} wrote: ${short(text)}`)),
        ...line(row.closedAt, 'closed'),
      ],
      related: errors.flatMap(({ link }) => (link === null ? [] : [link])),
    }
  },
)

const event = reader(
  'event',
  findStoredEvent,
  ({ origin, integrationId }): Origin =>
    workOf(origin, integrationId) ?? { ...HOST, text: 'a change of its integration' },
  async (framework, row, ref) => {
    const { lines, ...caused } = await causedBy(framework, ref)
    return {
      ...caused,
      status: row.status,
      lines: [
        ...line(row.createdAt, `event ${row.name} stored`),
        ...lines,
        ...row.deliveries.flatMap(({ consumer, at, status, attempts, error }) => {
          const attempt = status === 'silenced' ? '' : ` in attempt ${attempts}`
          return line(at, `${short(consumer)}: ${status}${attempt}${because(error)}`)
        }),
        ...line(row.deliveredAt, 'each consumer has had it, was given up or is silenced'),
      ],
      related: [],
    }
  },
)

const mapping = reader(
  'mapping',
  async ({ db, tables: { mappings } }, id) => (await db.select().from(mappings).where(eq(mappings.id, id)))[0],
  ({ origin, integrationId }): Origin => workOf(origin, integrationId) ?? HOST,
  async (_framework, row) => ({
    status: null,
    lines: line(row.createdAt, mappingText(row)),
    caused: [],
    more: false,
    related: [
      { kind: 'external', id: row.externalId, integrationId: row.integrationId },
      { kind: 'model', id: `${row.internalType}:${row.internalId}`, integrationId: null },
    ],
  }),
)

const NEWEST = 5

const integration = reader(
  'integration',
  async ({ db, tables: { integrations } }, id) => {
    const { credentials: _credentials, ...columns } = getTableColumns(integrations)
    const [row] = await db.select(columns).from(integrations).where(eq(integrations.id, id))
    return row && { ...row, integrationId: row.id }
  },
  (): Origin => ({ how: 'request', text: 'created by a person or by the host', link: null }),
  async (framework, row) => {
    const { db, tables } = framework
    const { logs, incidents, webhooks } = tables
    const newest = (operation: string) =>
      db
        .select(logColumns(tables))
        .from(logs)
        .where(and(eq(logs.integrationId, row.id), eq(logs.operation, operation)))
        .orderBy(desc(logs.id))
        .limit(NEWEST)
    const [pauses, syncs, backfills, troubles, deliveries] = await Promise.all([
      pausesOfIntegration(framework, row),
      newest('sync'),
      newest('backfill'),
      db
        .select()
        .from(incidents)
        .where(eq(incidents.integrationId, row.id))
        .orderBy(desc(incidents.openedAt))
        .limit(NEWEST),
      db
        .select({ id: webhooks.id, createdAt: webhooks.createdAt, status: webhooks.status })
        .from(webhooks)
        .where(eq(webhooks.integrationId, row.id))
        .orderBy(desc(webhooks.createdAt))
        .limit(NEWEST),
    ])
    const ref = (kind: RowKind, id: number): RecordRef => ({ kind, id, integrationId: row.id })
    const { lines, caused } = bounded(
      linesOf('run', [...syncs, ...backfills], logText),
      troubles.flatMap(({ openedAt, id, status, reason }) =>
        line(openedAt, `incident ${id} (${status}): ${reason}`, ref('incident', id)),
      ),
      deliveries.flatMap(({ createdAt, id, status }) => line(createdAt, `webhook ${id} ${status}`, ref('webhook', id))),
    )
    return {
      status: row.isActive ? row.healthStatus : 'switched off',
      lines: [
        ...line(row.createdAt, `integration ${JSON.stringify(short(row.name))} of ${row.provider} created`),
        ...lines,
        ...line(row.lastErrorAt, 'last failed call'),
        ...line(row.lastSyncedAt, 'last whole sync ended'),
        ...line(row.switchedOffAt, 'switched off by a person'),
        ...pauses,
        ...line(row.nextSyncAt, 'next sync is due'),
      ],
      caused,
      more: false,
      related: [],
    }
  },
)

const READERS: Readonly<Record<RowKind, Reader>> = {
  integration,
  webhook,
  item,
  run,
  request,
  log,
  incident,
  event,
  mapping,
}

/** A record at the provider, as one integration knows it. */
export async function lifeOfExternal(framework: Framework, externalId: string, integrationId: number): Promise<Life> {
  const { db, tables } = framework
  const { syncItems } = tables
  const [mapped, items] = await Promise.all([
    mappingsOf(framework, { integrationId, externalId }),
    db
      .select({ id: syncItems.id, createdAt: syncItems.createdAt, status: syncItems.status, error: syncItems.error })
      .from(syncItems)
      .where(and(eq(syncItems.externalId, externalId), eq(syncItems.integrationId, integrationId)))
      .orderBy(desc(syncItems.id))
      .limit(MAX_CAUSED + 1),
  ])
  return {
    ref: { kind: 'external', id: externalId, integrationId },
    status: items[0]?.status ?? null,
    origin: { how: 'delivery', text: 'the provider', link: null },
    ...bounded(
      linesOf('mapping', mapped, mappingText),
      items.flatMap(({ createdAt, id, status, error }) =>
        line(createdAt, `item ${id} ${status}${because(error)}`, { kind: 'item', id, integrationId }),
      ),
    ),
    related: mapped.map(({ internalType, internalId }) => ({
      kind: 'model',
      id: `${internalType}:${internalId}`,
      integrationId: null,
    })),
  }
}

/** An idempotency key, as one integration has spent it. */
export async function lifeOfKey(framework: Framework, key: string, integrationId: number): Promise<Life> {
  const { db, tables } = framework
  const { idempotencyKeys, requests } = tables
  const [[spent], calls] = await Promise.all([
    db
      .select()
      .from(idempotencyKeys)
      .where(and(eq(idempotencyKeys.key, key), eq(idempotencyKeys.integrationId, integrationId))),
    db
      .select({
        ...requestColumns(tables),
        // Also where it is older than those that are shown.
        oldestOrigin: sql<string | null>`first_value(${requests.origin}) over (order by ${requests.id})`,
      })
      .from(requests)
      .where(and(eq(requests.idempotencyKey, key), eq(requests.integrationId, integrationId)))
      .orderBy(desc(requests.id))
      .limit(MAX_CAUSED + 1),
  ])
  const { lines, ...caused } = bounded(linesOf('request', calls, requestText))
  return {
    ref: { kind: 'key', id: key, integrationId },
    status: spent === undefined ? 'free' : 'spent',
    origin: workOf(calls[0]?.oldestOrigin ?? null, integrationId) ?? HOST,
    lines: [...line(spent?.createdAt ?? null, 'the key was reserved'), ...lines],
    ...caused,
    related: [],
  }
}

/** A host's row, as the integrations within the limits know it. */
export async function lifeOfModel(framework: Framework, id: string, limits: Limits): Promise<Life> {
  const { db, tables } = framework
  const { mappings } = tables
  const model = modelIn(id) ?? { type: id, id: '' }
  const mapped = await db
    .select()
    .from(mappings)
    .where(
      and(
        eq(mappings.internalType, model.type),
        eq(mappings.internalId, model.id),
        belongsToThem(tables, sql`${mappings.integrationId}`, limits),
      ),
    )
    .orderBy(asc(mappings.id))
    .limit(MAX_CAUSED + 1)
  const calls = await callsFor(framework, model, [...new Set(mapped.map(({ integrationId }) => integrationId))])
  const [first] = mapped
  return {
    ref: { kind: 'model', id, integrationId: null },
    status: null,
    origin: (first && workOf(first.origin, first.integrationId)) ?? HOST,
    ...bounded(linesOf('mapping', mapped, mappingText), linesOf('request', calls, requestText)),
    related: mapped.map(({ externalId, integrationId }) => ({ kind: 'external', id: externalId, integrationId })),
  }
}

/** Looked through, as `requests.list()` looks them through: no index has the host's row, since it would cost each call. */
async function callsFor(
  { db, tables, clock }: Framework,
  { type, id }: { readonly type: string; readonly id: string },
  integrationIds: readonly number[],
) {
  if (integrationIds.length === 0 || !/^\d{1,15}$/.test(id)) return []
  const filter = { relatedTo: { type, id: Number(id) }, since: searchedSince(undefined, clock.now()) }
  return pageOfRequests(db, tables, filter, integrationIds, { below: undefined, limit: MAX_CAUSED + 1 })
}
