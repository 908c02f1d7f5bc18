/** How deliveries are stored: their owners, and one row each. Rule: docs/behaviour/webhooks.md, "Arrival". */
import type { Query, SQL } from 'drizzle-orm'
import { and, asc, eq, sql } from 'drizzle-orm'
import type { PreparedQueryConfig } from 'drizzle-orm/pg-core'
import { PgDialect } from 'drizzle-orm/pg-core'
import { keptCheckPlans } from '../db/check-plans.ts'
import type { Database, Transaction } from '../db/client.ts'
import { clockNow, jsonText } from '../db/schema/columns.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import { isId } from '../framework/id.ts'
import { acceptsWebhooks } from '../integrations/queries.ts'
import type { OrderedKey, Ordering } from './order.ts'
import { lockKeys, passTurns, SUPERSEDED_ROWS } from './order.ts'
import type { NewPart } from './parts.ts'

/** An integration, as it was read. */
export interface IntegrationOfRoute {
  readonly row: IntegrationRow
  /** The row's `xmin`: any update changes it (manual, 5.6 "System Columns"). */
  readonly version: string
}

/** The integration that owns a delivery. */
export interface DeliveryOwner {
  readonly integrationId: number
  /**
   * Version of the row whose secret verified the signature. `ANY_VERSION`: any version that still accepts deliveries. Null: the
   * delivery is trusted, and the integration only has to exist.
   */
  readonly version: string | null
}

export interface NewDelivery {
  readonly deliveryId: string
  readonly eventType: string | null
  readonly payload: string
  readonly headers: Readonly<Record<string, readonly string[]>>
  /** Cache key of its signed bytes, where the delivery id is not signed. While the key is reserved, the delivery is a duplicate. */
  readonly signedKey?: string
  /** Of the span in which it is stored. Left out: it is not traced. */
  readonly traceparent?: string
  /** Its events, each to be stored as a webhook; then its own type is not looked at. Left out: it is one webhook. */
  readonly parts?: readonly NewPart[]
  /** How many events it brought, with those that are not stored. Default: as many as `parts`. */
  readonly partsBrought?: number
  /** Left out: it may be handled in any order. */
  readonly ordering?: Ordering
}

export interface OwnedDelivery extends NewDelivery {
  readonly owner: DeliveryOwner
}

/** `parts`: of a delivery with parts, the id of each; null: it is a repeat. `duplicate`: all of it is. */
export type StoredDelivery = { readonly id: number } | { readonly parts: readonly (number | null)[] } | 'duplicate'

interface StoreOptions {
  /** How long signed bytes are reserved under their key. Default 0. */
  readonly replayWindowSeconds?: number
  /** The moment of the host's clock. Null, the default: that of the database. */
  readonly nowMs?: number | null
  /** Whether the same statement stores a durable `WebhookReceived` for each. Default false. */
  readonly recordsEvents?: boolean
}

/**
 * The integrations that may own a delivery, lowest id first: all of the provider that accept deliveries, or the one with the id.
 * That one may be switched off, which costs no statement of its own.
 *
 * @param limit the first ones only
 */
export async function integrationsOfRoute(
  db: Database,
  tables: Tables,
  { provider, integrationId }: { provider: string; integrationId: number | null },
  limit: number,
): Promise<IntegrationOfRoute[]> {
  const { integrations } = tables
  if (integrationId !== null && !isId(integrationId)) return []
  const which: SQL = integrationId === null ? acceptsWebhooks(tables) : eq(integrations.id, integrationId)
  return db
    .select({ row: integrations, version: sql<string>`${integrations}.xmin::text` })
    .from(integrations)
    .where(and(eq(integrations.provider, provider), which))
    .orderBy(asc(integrations.id))
    .limit(limit)
}

/**
 * Stores deliveries of any owners, in one statement, as `pending`: one result each, in their order.
 *
 * The first copy of a delivery id is stored, also where several processes store it at once. The statement looks at the owner's row, too.
 * An owner that has been switched off, deleted or given other credentials since gets nothing, and the delivery is verified again.
 *
 * @returns `changed` where the owner is not as it was: the delivery is not stored
 */
export async function storeDeliveries(
  db: Database,
  tables: Tables,
  deliveries: readonly OwnedDelivery[],
  { replayWindowSeconds = 0, nowMs = null, recordsEvents = false }: StoreOptions = {},
): Promise<readonly (StoredDelivery | 'changed')[]> {
  if (deliveries.length === 0) return []
  let rows: readonly Found[]
  try {
    const options = { replayWindowSeconds, nowMs, recordsEvents }
    const keys = orderedKeys(deliveries)
    rows =
      keys.length === 0
        ? await execute(db, tables, deliveries, options)
        : await db.transaction(async (tx) => {
            await lockKeys(tx, tables, keys)
            const found = await execute(tx, tables, deliveries, options)
            // As many calls as the rows of these deliveries may need. A longer line of a key is not theirs to settle.
            for (let rows = keys.length; rows > 0; rows -= SUPERSEDED_ROWS)
              if (!(await passTurns(tx, tables, keys)).isMore) break
            return found
          })
  } catch (error) {
    // Deleted after the statement had looked.
    if (isForeignKeyViolation(error) && distinctOwners(deliveries).length === 1) return deliveries.map(() => 'changed')
    throw error
  }
  const current = new Set<string>()
  const ids = new Map<string, number>()
  for (const { id, integration_id, name } of rows)
    if (id === null) current.add(nameOf(integration_id, name))
    else ids.set(nameOf(integration_id, name), Number(id))
  // The first copy of an id has the row: of the copies whose owner has not changed.
  const taken = new Set<string>()
  const idOf = ({ owner }: OwnedDelivery, deliveryId: string): number | null => {
    const name = nameOf(owner.integrationId, deliveryId)
    if (taken.has(name)) return null
    taken.add(name)
    return ids.get(name) ?? null
  }
  return deliveries.map((delivery) => {
    const { owner, parts, deliveryId } = delivery
    if (!current.has(nameOf(owner.integrationId, owner.version ?? TRUSTED))) return 'changed'
    if (parts === undefined) {
      const id = idOf(delivery, deliveryId)
      return id === null ? 'duplicate' : { id }
    }
    const stored = parts.map((part) => idOf(delivery, part.deliveryId))
    return stored.some((id) => id !== null) ? { parts: stored } : 'duplicate'
  })
}

/** No row has them: transaction ids of users begin at 3. */
const TRUSTED = '0'
export const ANY_VERSION = '1'
/**
 * Separates texts that travel as one parameter. The driver knows no arrays here (`fetch_types`, db/client.ts), and in JSON bodies would
 * have to be escaped. It is secret, so no body holds it.
 */
const SEPARATOR = `<${crypto.randomUUID()}>`

/** A row of the statement: an unchanged owner, by its version, or a delivery that was stored, by its id. */
interface Found {
  readonly id: string | null
  readonly integration_id: string
  readonly name: string
}
interface Returns<Row> extends PreparedQueryConfig {
  execute: readonly Row[]
}

/** What the statement is given. */
type Given =
  | 'ownerIds'
  | 'ownerVersions'
  | 'integrationIds'
  | 'versions'
  | 'deliveryIds'
  | 'eventTypes'
  | 'payloads'
  | 'headers'
  | 'signedKeys'
  | 'traceparents'
  | 'windowSeconds'
  | 'now'
  | 'wholeIds'
  | 'parts'
  | 'wholeOwnerIds'
  | 'wholeNames'
  | 'wholePayloads'
  | 'wholeHeaders'
  | 'wholeCounts'
  | 'orderingKeys'
  | 'coalescing'

const given = (name: Given): SQL => sql`${sql.placeholder(name)}`
const separator = (): SQL => sql`${sql.placeholder('separator')}`
/** Texts that are never empty. */
const list = (name: Given): SQL => sql`string_to_array(${given(name)}, ${separator()})`
/** The same with nulls. */
const listWithNulls = (name: Given): SQL => sql`string_to_array(${given(name)}, ${separator()}, '')`
/** Texts that may be empty, each with a separator behind it: an empty text alone would be read as no element at all. */
const listWithEmpty = (name: Given): SQL => sql`trim_array(string_to_array(${given(name)}, ${separator()}), 1)`

/** A webhook of the statement: a delivery, or a part of one. */
interface NewRow extends NewPart {
  readonly delivery: OwnedDelivery
  /** Null: it is no part. */
  readonly wholeId: string | null
}

function rowsOf(delivery: OwnedDelivery): NewRow[] {
  const { parts, deliveryId, eventType, payload, headers, ordering } = delivery
  const alone = { delivery, wholeId: null, deliveryId, eventType, payload, headers, part: 0 }
  if (parts === undefined) return [ordering === undefined ? alone : { ...alone, ordering }]
  return parts.map((part) => ({ ...part, delivery, wholeId: deliveryId }))
}

/** Whether a delivery, or a part of it, has an ordering key. Its statement takes the key's lock. */
export const isOrderedDelivery = ({ ordering, parts }: NewDelivery): boolean =>
  parts === undefined ? ordering !== undefined : parts.some((part) => part.ordering !== undefined)

function orderedKeys(deliveries: readonly OwnedDelivery[]): OrderedKey[] {
  return deliveries.flatMap(({ owner: { integrationId }, ordering, parts }) =>
    (parts ?? [{ ordering }]).flatMap(({ ordering: of }) =>
      of === undefined ? [] : [{ integrationId, key: of.orderingKey }],
    ),
  )
}

async function execute(
  db: Database | Transaction,
  tables: Tables,
  deliveries: readonly OwnedDelivery[],
  { replayWindowSeconds, nowMs, recordsEvents }: Required<StoreOptions>,
): Promise<readonly Found[]> {
  const owners = distinctOwners(deliveries)
  const isGuarded = deliveries.some(({ signedKey }) => signedKey !== undefined)
  const isTraced = deliveries.some(({ traceparent }) => traceparent !== undefined)
  const wholes = deliveries.filter(({ parts }) => parts !== undefined)
  const isSplit = wholes.length > 0
  const rows = deliveries.flatMap(rowsOf)
  const isOrdered = rows.some(({ ordering }) => ordering !== undefined)
  const values: Partial<Record<Given, string>> = {
    ownerIds: joined(owners, ({ integrationId }) => String(integrationId)),
    ownerVersions: joined(owners, ({ version }) => version ?? TRUSTED),
    integrationIds: joined(rows, ({ delivery }) => String(delivery.owner.integrationId)),
    versions: joined(rows, ({ delivery }) => delivery.owner.version ?? TRUSTED),
    deliveryIds: joined(rows, ({ deliveryId }) => deliveryId),
    eventTypes: joined(rows, ({ eventType }) => eventType ?? ''),
    payloads: joined(rows, ({ payload }) => payload) + SEPARATOR,
    headers: joined(rows, ({ headers }) => jsonText(headers)),
    signedKeys: isGuarded ? joined(rows, ({ delivery }) => delivery.signedKey ?? '') : '',
    traceparents: isTraced ? joined(rows, ({ delivery }) => delivery.traceparent ?? '') : '',
    windowSeconds: String(replayWindowSeconds),
    now: nowMs === null ? '' : new Date(nowMs).toISOString(),
  }
  if (isSplit)
    Object.assign(values, {
      wholeIds: joined(rows, ({ wholeId }) => wholeId ?? ''),
      parts: joined(rows, ({ wholeId, part }) => (wholeId === null ? '' : String(part))),
      wholeOwnerIds: joined(wholes, ({ owner }) => String(owner.integrationId)),
      wholeNames: joined(wholes, ({ deliveryId }) => deliveryId),
      wholePayloads: joined(wholes, ({ payload }) => payload) + SEPARATOR,
      wholeHeaders: joined(wholes, ({ headers }) => jsonText(headers)),
      wholeCounts: joined(wholes, ({ parts = [], partsBrought = parts.length }) => String(partsBrought)),
    } satisfies Partial<Record<Given, string>>)
  if (isOrdered)
    Object.assign(values, {
      orderingKeys: joined(rows, ({ ordering }) => ordering?.orderingKey ?? ''),
      coalescing: joined(rows, ({ ordering }) => (ordering === undefined ? '' : String(ordering.coalesces))),
    } satisfies Partial<Record<Given, string>>)
  // A name of any kind lets the driver keep it prepared where the URL of the database says `prepare=true`.
  const query = statementOf(tables, { isGuarded, isTraced, isSplit, isOrdered, recordsEvents })
  const prepared = db._.session.prepareQuery<Returns<Found>>(query, undefined, 'store', false)
  return prepared.execute({ ...values, separator: SEPARATOR })
}

function joined<Item>(items: readonly Item[], textOf: (item: Item) => string): string {
  let text = ''
  for (const [at, item] of items.entries()) text += at === 0 ? textOf(item) : SEPARATOR + textOf(item)
  return text
}

/** What a statement does beside storing. */
interface StatementParts {
  readonly isGuarded: boolean
  readonly isTraced: boolean
  readonly isSplit: boolean
  readonly isOrdered: boolean
  readonly recordsEvents: boolean
}

const STATEMENTS = new WeakMap<Tables, Map<string, Query>>()

/** Its text is the same for any number of deliveries. */
function statementOf(tables: Tables, parts: StatementParts): Query {
  const known = STATEMENTS.get(tables) ?? new Map<string, Query>()
  STATEMENTS.set(tables, known)
  const name = Object.values(parts).join()
  const query = known.get(name) ?? new PgDialect().sqlToQuery(statement(tables, parts))
  known.set(name, query)
  return query
}

function statement(tables: Tables, { isGuarded, isTraced, isSplit, isOrdered, recordsEvents }: StatementParts): SQL {
  const { webhooks, integrations } = tables
  const traceparent = isTraced ? sql`, traceparent` : sql``
  // As it is reserved: a part by the whole.
  const name = isSplit ? sql`coalesce(g.whole_id, g.delivery_id)` : sql`g.delivery_id`
  const isFresh = isGuarded
    ? sql`(g.signed_key is null or (g.signed_key, ${name}) in (select key, value #>> '{}' from fresh))`
    : sql`true`
  return sql`
    with owner as (
      select i.id, asked.version
      from unnest(${list('ownerIds')}::bigint[], ${list('ownerVersions')}) as asked (id, version)
      join ${integrations} i on i.id = asked.id
      where asked.version = ${sql.raw(`'${TRUSTED}'`)}
         or (asked.version in (i.xmin::text, ${sql.raw(`'${ANY_VERSION}'`)}) and i.switched_off_at is null and (i.is_active or i.health_status = 'disabled'))
    ), given as (
      select g.* from unnest(
        ${list('integrationIds')}::bigint[], ${list('versions')}, ${list('deliveryIds')},
        ${listWithNulls('eventTypes')}, ${listWithEmpty('payloads')}, ${list('headers')}::jsonb[]
        ${isGuarded ? sql`, ${listWithNulls('signedKeys')}` : sql``}${isTraced ? sql`, ${listWithNulls('traceparents')}` : sql``}
        ${isSplit ? sql`, ${listWithNulls('wholeIds')}, ${listWithNulls('parts')}::int[]` : sql``}
        ${isOrdered ? sql`, ${listWithNulls('orderingKeys')}, ${listWithNulls('coalescing')}::boolean[]` : sql``}
      ) ${isOrdered ? sql`with ordinality` : sql``} as g (integration_id, version, delivery_id, event_type, payload, headers${isGuarded ? sql`, signed_key` : sql``}${traceparent}${isSplit ? sql`, whole_id, part` : sql``}${isOrdered ? sql`, ordering_key, coalesces, at` : sql``})
      join owner on owner.id = g.integration_id and owner.version = g.version
    )${isGuarded ? reservation(tables, name, isSplit) : sql``}${isSplit ? wholeRows(tables, isFresh) : sql``}, stored as (
      insert into ${webhooks} (integration_id, delivery_id, event_type, payload, headers${traceparent}${isSplit ? sql`, part, part_of` : sql``}${isOrdered ? sql`, ordering_key, coalesces, key_turn` : sql``})
      select g.integration_id, g.delivery_id, event_type, payload, headers${traceparent}${isSplit ? sql`, g.part, whole.id` : sql``}${isOrdered ? sql`, g.ordering_key, g.coalesces, case when g.ordering_key is not null then false end` : sql``}
      from given g
      ${isSplit ? sql`left join whole on whole.integration_id = g.integration_id and whole.delivery_id = g.whole_id` : sql``}
      where ${isFresh}${isSplit ? sql` and (g.whole_id is null or whole.id is not null)` : sql``}
      order by ${isOrdered ? sql`g.at` : sql`g.integration_id, ${isSplit ? sql`g.whole_id, g.part, ` : sql``}g.delivery_id`}
      on conflict (integration_id, delivery_id) do nothing
      returning id, integration_id, delivery_id${recordsEvents ? sql`, event_type` : sql``}
    )${recordsEvents ? eventRows(tables) : sql``}
    select null as id, id as integration_id, version as name, ${keptCheckPlans} from owner
    union all
    select id, integration_id, delivery_id, null from stored`
}

/**
 * The wholes of deliveries with a part that is not known yet. One that is stored already has its bytes: equal ids are one delivery, and
 * of two statements at once the second waits here for the first.
 */
function wholeRows({ deliveries, webhooks }: Tables, isFresh: SQL): SQL {
  return sql`, whole as (
      insert into ${deliveries} as d (integration_id, delivery_id, payload, headers, parts)
      select distinct on (w.integration_id, w.delivery_id) w.integration_id, w.delivery_id, w.payload, w.headers, w.parts
      from unnest(
        ${list('wholeOwnerIds')}::bigint[], ${list('wholeNames')}, ${listWithEmpty('wholePayloads')},
        ${list('wholeHeaders')}::jsonb[], ${list('wholeCounts')}::int[]
      ) as w (integration_id, delivery_id, payload, headers, parts)
      where exists (
        select 1 from given g
        where g.integration_id = w.integration_id and g.whole_id = w.delivery_id and ${isFresh} and not exists (
          select 1 from ${webhooks} k where k.integration_id = g.integration_id and k.delivery_id = g.delivery_id
        )
      )
      order by w.integration_id, w.delivery_id
      on conflict (integration_id, delivery_id) do update set updated_at = clock_timestamp()
      returning d.id, d.integration_id, d.delivery_id
    )`
}

/**
 * Reserves signed bytes that no other delivery has brought lately. A delivery whose id is stored already is a repeat, and reserves
 * nothing.
 *
 * @param name as the delivery is called, of a row `g`
 */
function reservation({ cache, webhooks, deliveries }: Tables, name: SQL, isSplit: boolean): SQL {
  const isKnown = sql`exists (
        select 1 from ${webhooks} w where w.integration_id = g.integration_id and w.delivery_id = ${name}
      )`
  const now = sql`coalesce(nullif(${given('now')}, '')::timestamptz, ${clockNow()})`
  const isKnownWhole = sql`exists (
        select 1 from ${deliveries} d where d.integration_id = g.integration_id and d.delivery_id = g.whole_id
      )`
  return sql`, fresh as (
      insert into ${cache} as c (key, value, expires_at)
      select distinct on (g.signed_key) g.signed_key, to_jsonb(${name}),
             ${now} + make_interval(secs => ${given('windowSeconds')}::double precision)
      from given g
      where g.signed_key is not null and not ${isSplit ? sql`(${isKnown} or ${isKnownWhole})` : isKnown}
      order by g.signed_key, ${name}
      on conflict (key) do update
      set value = excluded.value, expires_at = excluded.expires_at, updated_at = clock_timestamp()
      where c.expires_at <= ${now}
      returning key, value
    )`
}

/** As events/event-payloads.ts reads them. */
function eventRows({ events, integrations }: Tables): SQL {
  return sql`, told as (
      insert into ${events} (integration_id, name, origin, payload)
      select i.id, 'WebhookReceived', 'webhook:' || stored.id, jsonb_build_object(
        'provider', i.provider, 'webhookId', stored.id, 'deliveryId', stored.delivery_id, 'eventType', stored.event_type)
      from stored join ${integrations} i on i.id = stored.integration_id
      order by stored.id
    )`
}

function distinctOwners(deliveries: readonly OwnedDelivery[]): DeliveryOwner[] {
  const owners = new Map<string, DeliveryOwner>()
  for (const { owner } of deliveries) owners.set(nameOf(owner.integrationId, owner.version ?? TRUSTED), owner)
  return [...owners.values()]
}

function isForeignKeyViolation(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '23503'
}

function nameOf(integrationId: number | string, rest: string): string {
  return `${integrationId}:${rest}`
}
