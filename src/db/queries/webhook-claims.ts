/**
 * How pumps get webhooks, keep them, and lose them.
 *
 * Rule: docs/behaviour/webhooks.md, "Claims".
 */
import type { SQL } from 'drizzle-orm'
import { and, eq, getTableColumns, sql } from 'drizzle-orm'
import type { Database } from '../client.ts'
import { jsonText } from '../schema/columns.ts'
import type { Tables, WebhookRow } from '../schema/tables.ts'
import { functionNamed } from './calls.ts'
import { intervalOf } from './interval.ts'

export interface ClaimRoom {
  /** The walk begins behind this integration. */
  readonly after: number
  /** Walked over at most. */
  readonly integrations: number
  readonly rows: number
  /** For an integration that `rooms` does not name. */
  readonly room: number
  readonly rooms: Readonly<Record<string, number>>
}

export interface Claimed {
  readonly rows: readonly WebhookRow[]
  /** The `xmin` of each row's integration: an integration that has the same one is as it was. */
  readonly versions: ReadonlyMap<number, string>
  readonly walked: number
  /** The last integration that was walked over; 0: none. */
  readonly upto: number
}

/**
 * Moves the next `pending` rows of many integrations to `processing` under this claim and counts the attempt. Rows that another
 * claim is taking at the same moment are passed over; rows of integrations that their health disabled stay, and so do rows that
 * have lost a worker: they get a workflow of their own.
 *
 * @returns asks for the next ones. The statement is built once: a pump without work asks fifty times a second
 */
export function webhookClaims(db: Database, tables: Tables, claim: string): (room: ClaimRoom) => Promise<Claimed> {
  const columns = Object.entries(getTableColumns(tables.webhooks)).map(
    ([key, column]) => [key, sql`${sql.identifier(column.name)}`.mapWith(column)] as const,
  )
  const given = (name: keyof ClaimRoom): SQL => sql`${sql.placeholder(name)}`
  const statement = db
    .select({
      ...(Object.fromEntries(columns) as { [Key in keyof WebhookRow]: SQL<WebhookRow[Key]> }),
      version: sql<string | null>`version`,
      walked: sql<number>`walked`,
      upto: sql<string>`upto`,
    })
    .from(
      sql`(select (c.webhook).*, c.version, c.walked, c.upto from ${functionNamed(tables, 'claim_webhooks')}(
        ${claim}::text, ${given('after')}::bigint, ${given('integrations')}::int, ${given('rows')}::int, ${given('room')}::int,
        ${given('rooms')}::jsonb) c) as claimed`,
    )
    .prepare('claim_webhooks')
  return async ({ rooms, ...room }) => {
    const taken = await statement.execute({ ...room, rooms: jsonText(rooms) })
    const versions = new Map<number, string>()
    const claimed: WebhookRow[] = []
    let walk = { walked: 0, upto: 0 }
    for (const { version, walked, upto, ...row } of taken)
      if (version === null) walk = { walked, upto: Number(upto) }
      else {
        claimed.push(row)
        versions.set(row.integrationId, version)
      }
    return { rows: claimed.sort((a, b) => a.id - b.id), versions, ...walk }
  }
}

/** The cache key by which a pump says that it lives. */
const leaseKey = (prefix: string, claim: string): string => `${prefix}:${claim}`

export interface LeaseOf {
  /** Config `cache_prefix`. */
  readonly prefix: string
  readonly claim: string
}

/**
 * Says for some more seconds that the holder of a claim lives.
 *
 * @returns whether it was not served until now, be it that this is the first time, or that it was silent for too long: then its rows
 * may be another one's
 */
export async function keepClaim(
  db: Database,
  { cache }: Tables,
  { prefix, claim }: LeaseOf,
  seconds: number,
): Promise<{ hasLapsed: boolean }> {
  const key = leaseKey(prefix, claim)
  const [row] = await db.execute<{ lapsed: boolean | null }>(sql`
    with before as (select expires_at <= clock_timestamp() as lapsed from ${cache} where key = ${key})
    insert into ${cache} (key, value, expires_at)
    values (${key}, '{}', clock_timestamp() + ${intervalOf(sql`${seconds}`)})
    on conflict (key) do update set expires_at = excluded.expires_at, updated_at = clock_timestamp()
    returning (select lapsed from before) as lapsed`)
  return { hasLapsed: row?.lapsed !== false }
}

export async function endClaim(db: Database, { cache }: Tables, { prefix, claim }: LeaseOf): Promise<void> {
  await db.delete(cache).where(eq(cache.key, leaseKey(prefix, claim)))
}

/** Whether the holder of a claim has said lately that it lives. */
export async function isServed(db: Database, { cache }: Tables, { prefix, claim }: LeaseOf): Promise<boolean> {
  const rows = await db
    .select({ key: cache.key })
    .from(cache)
    .where(and(eq(cache.key, leaseKey(prefix, claim)), sql`${cache.expiresAt} > clock_timestamp()`))
  return rows.length > 0
}

/** Claims of pumps that hold rows, and whether their holder has said lately that it lives. */
export async function pumpClaims(
  db: Database,
  { webhooks, cache }: Tables,
  prefix: string,
): Promise<{ claim: string; served: boolean }[]> {
  return db.execute<{ claim: string; served: boolean }>(sql`
    select held.claim, c.key is not null as served
    from (select distinct claim from ${webhooks} where status = 'processing' and claim like 'pump:%') held
    left join ${cache} c on c.key = ${`${prefix}:`} || held.claim and c.expires_at > clock_timestamp()`)
}

/** A webhook that has lost its worker and waits for a workflow of its own. */
export interface Apart {
  readonly id: number
  readonly integrationId: number
  readonly lostWorkers: number
}

/**
 * Counts the loss and takes the rows of a claim away from a holder that is still silent: they are `pending`, and no pump's. A holder that
 * speaks at the same moment waits for this, and is told that it had lapsed; or this one waits, and takes nothing.
 */
export async function setApart(
  db: Database,
  { webhooks, cache }: Tables,
  { prefix, claim }: LeaseOf,
): Promise<Apart[]> {
  const key = leaseKey(prefix, claim)
  const rows = await db.execute<{ id: string; integrationId: string; lostWorkers: number }>(sql`
    with silent as (delete from ${cache} where key = ${key} and expires_at <= clock_timestamp() returning key)
    update ${webhooks} w
    set status = 'pending', claim = null, lost_workers = w.lost_workers + 1, updated_at = clock_timestamp()
    where w.status = 'processing' and w.claim = ${claim}
      and (exists (select 1 from silent) or not exists (select 1 from ${cache} c where c.key = ${key}))
    returning w.id, w.integration_id as "integrationId", w.lost_workers as "lostWorkers"`)
  return rows.map(({ id, integrationId, lostWorkers }) => ({
    id: Number(id),
    integrationId: Number(integrationId),
    lostWorkers,
  }))
}

/**
 * Rows that were set apart and whose workflow has not begun with them for a while: it could not be started. They are touched, so
 * that two pumps do not ask for the same ones.
 */
export async function leftApart(
  db: Database,
  { webhooks, integrations }: Tables,
  { olderThanSeconds, limit }: { olderThanSeconds: number; limit: number },
): Promise<number[]> {
  const rows = await db.execute<{ id: string }>(sql`
    with left_over as (
      select w.id from ${webhooks} w
      where w.status = 'pending' and w.lost_workers > 0
        and w.updated_at < clock_timestamp() - make_interval(secs => ${olderThanSeconds}::double precision)
        and not exists (select 1 from ${integrations} i where i.id = w.integration_id and i.health_status = 'disabled')
      order by w.id limit ${limit} for update skip locked
    )
    update ${webhooks} w set updated_at = clock_timestamp() from left_over l where w.id = l.id
    returning w.id`)
  return rows.map(({ id }) => Number(id))
}

/** Gives the rows of a claim back that its holder does not know of. The attempt does not count: no handler has seen them. */
export async function handBackUnknown(
  db: Database,
  { webhooks }: Tables,
  claim: string,
  known: ReadonlySet<number>,
): Promise<void> {
  await db.execute(sql`
    update ${webhooks} w
    set status = 'pending', attempts = w.attempts - 1, claim = null, updated_at = clock_timestamp()
    where w.status = 'processing' and w.claim = ${claim}
      and not exists (select 1 from jsonb_array_elements_text(${jsonText([...known])}::jsonb) k where k::bigint = w.id)`)
}

/** Which rows a claim still holds. */
export async function idsHeldBy(db: Database, { webhooks }: Tables, claim: string): Promise<Set<number>> {
  const rows = await db
    .select({ id: webhooks.id })
    .from(webhooks)
    .where(and(eq(webhooks.status, 'processing'), eq(webhooks.claim, claim)))
  return new Set(rows.map(({ id }) => id))
}
