/**
 * Webhooks of one ordering key, one after the other. One row of a key has its turn, the others wait, and no claim sees them.
 *
 * The turn is given under the key's lock, so that neither an arrival nor a settlement is overlooked by the other. That no two rows have it
 * is a unique index.
 * Rule: docs/behaviour/webhook-order.md.
 */
import { createHash } from 'node:crypto'
import type { SQL } from 'drizzle-orm'
import { and, eq, ne, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import { functionNamed } from '../db/sql-functions.ts'
import type { Framework } from '../framework/context.ts'

/** Column `ordering_key` is varchar(255). */
const MAX_KEY_LENGTH = 255
/** Superseded webhooks that a call settles at most (drizzle/functions/pass_turns.sql). */
export const SUPERSEDED_ROWS = 1_000
/** Keys of one statement of a repair. */
const LOOKED_KEYS = 500

export interface OrderedKey {
  readonly integrationId: number
  readonly key: string
}

/** How a delivery is ordered, as its row has it. */
export interface Ordering {
  readonly orderingKey: string
  readonly coalesces: boolean
}

/** What a provider says of an event's order; null: none. A key that the column can't hold is replaced by its SHA-256. */
export function orderingOf(given: unknown): Ordering | null {
  const { key, coalesce = false } =
    typeof given === 'object' && given !== null ? (given as { key?: unknown; coalesce?: unknown }) : { key: given }
  if (typeof key !== 'string' || key === '') return null
  const fits = [...key].length <= MAX_KEY_LENGTH && !key.includes('\u0000')
  return {
    orderingKey: fits ? Buffer.from(key).toString() : createHash('sha256').update(key).digest('hex'),
    coalesces: coalesce === true,
  }
}

/** Until the transaction ends. */
export async function lockKeys(tx: Transaction, tables: Tables, keys: readonly OrderedKey[]): Promise<void> {
  await tx.execute(sql`select ${lockingKeys(tables, keys)}`)
}

/** The call that locks keys, for a statement: `void`. */
export const lockingKeys = (tables: Tables, keys: readonly OrderedKey[]): SQL =>
  sql`${functionNamed(tables, 'lock_keys')}(${listed(keys)}::jsonb)`

/** The call that passes their turns on, for a statement: see {@link passedTurns}. The keys are locked. */
export const passingTurns = (tables: Tables, keys: readonly OrderedKey[]): SQL =>
  sql`${functionNamed(tables, 'pass_turns')}(${listed(keys)}::jsonb)`

/** What became of a call. */
interface PassedTurns {
  /** Rows that have got a turn. */
  readonly passed: number
  /** A key has more superseded webhooks than a call settles, and no turn yet: {@link passTurnsBehind} goes on. */
  readonly isMore: boolean
}

/** @param given by the function */
export const passedTurns = (given: number): PassedTurns =>
  given < 0 ? { passed: -1 - given, isMore: true } : { passed: given, isMore: false }

const listed = (keys: readonly OrderedKey[]): string =>
  jsonText(keys.map(({ integrationId, key }) => [integrationId, key]))

/**
 * For each key without a row that has the turn: gives it to the next row.
 *
 * @param keys locked
 */
export async function passTurns(tx: Transaction, tables: Tables, keys: readonly OrderedKey[]): Promise<PassedTurns> {
  const [row] = await tx.execute<{ given: number }>(sql`select ${passingTurns(tables, keys)} as given`)
  return passedTurns(row?.given ?? 0)
}

/**
 * The same for the keys of these rows, to the end, each call in a transaction of its own: others get the locks between.
 * The inbox is woken where a row has got its turn.
 */
export async function passTurnsBehind(framework: Framework, rows: readonly OrderedRow[]): Promise<void> {
  const keys = keysOfRows(rows)
  if (keys.length === 0) return
  const { db, tables, workflows } = framework
  for (let isOver = false; !isOver; ) {
    const { passed, isMore } = await despiteDeadlocks(() =>
      db.transaction(async (tx) => {
        await lockKeys(tx, tables, keys)
        return passTurns(tx, tables, keys)
      }),
    )
    if (passed > 0) workflows.wakeInbox()
    isOver = !isMore
  }
}

type OrderedRow = Pick<WebhookRow, 'integrationId' | 'orderingKey'>

export function keysOfRows(rows: readonly OrderedRow[]): OrderedKey[] {
  return rows.flatMap(({ integrationId, orderingKey: key }) => (key === null ? [] : [{ integrationId, key }]))
}

/** The row that has the turn of a row's key; null: none has, or it is the row itself. */
export async function turnBefore(
  { db, tables: { webhooks } }: Framework,
  { id, integrationId, orderingKey }: OrderedRow & Pick<WebhookRow, 'id'>,
): Promise<number | null> {
  if (orderingKey === null) return null
  const [row] = await db
    .select({ id: webhooks.id })
    .from(webhooks)
    .where(
      and(
        eq(webhooks.integrationId, integrationId),
        eq(webhooks.orderingKey, orderingKey),
        sql`${webhooks.keyTurn}`,
        ne(webhooks.id, id),
      ),
    )
  return row?.id ?? null
}

/**
 * Mends what another path has left: a row that keeps its turn although it is not tried again (the limit of attempts was lowered), and keys
 * whose rows wait for a row that is gone.
 */
export async function mendOrder(framework: Framework): Promise<void> {
  const { db, tables, config } = framework
  const { webhooks } = tables
  await byIndexes(db, (tx) =>
    tx.execute(sql`
      update ${webhooks} w set key_turn = null
      where w.key_turn and (w.status = 'processed' or w.status = 'failed' and (
        w.attempts >= ${config.webhook.max_attempts}::int or w.dismissed_at is not null
        or w.payload = '' and w.headers = '{}'::jsonb))`),
  )
  for (let after: WaitingKey | null = { integration_id: '0', key: '' }; after !== null; ) {
    const looked = await nextWaitingKeys(db, tables, after)
    await passTurnsBehind(
      framework,
      looked
        .filter(({ has_turn }) => !has_turn)
        .map(({ integration_id, key }) => ({ integrationId: Number(integration_id), orderingKey: key })),
    )
    after = looked.length < LOOKED_KEYS ? null : (looked.at(-1) ?? null)
  }
}

interface WaitingKey {
  readonly integration_id: string
  readonly key: string
}

/** The next keys with rows that wait, and whether a row of theirs has the turn: from key to key, however many rows wait. */
async function nextWaitingKeys(
  db: Database,
  { webhooks }: Tables,
  after: WaitingKey,
): Promise<(WaitingKey & { readonly has_turn: boolean })[]> {
  const firstBehind = (integrationId: SQL, key: SQL) => sql`
    select w.integration_id, w.ordering_key from ${webhooks} w
    where w.key_turn is false and (w.integration_id, w.ordering_key) > (${integrationId}, ${key})
    order by w.integration_id, w.ordering_key limit 1`
  return byIndexes(db, (tx) =>
    tx.execute<{ integration_id: string; key: string; has_turn: boolean }>(sql`
      with recursive keys as (
        (${firstBehind(sql`${after.integration_id}::bigint`, sql`${after.key}::text`)})
        union all
        select next.integration_id, next.ordering_key
        from keys cross join lateral (${firstBehind(sql`keys.integration_id`, sql`keys.ordering_key`)}) next
      )
      select looked.integration_id, looked.ordering_key as key, (
        select h.id from ${webhooks} h
        where h.integration_id = looked.integration_id and h.ordering_key = looked.ordering_key and h.key_turn limit 1
      ) is not null as has_turn
      from (select * from keys limit ${LOOKED_KEYS}) looked
      order by looked.integration_id, looked.ordering_key`),
  )
}

/** With statistics from before a burst, Postgres would read all webhooks, or sort all that wait. */
async function byIndexes<T>(db: Database, ask: (tx: Transaction) => Promise<T>): Promise<T> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`
      select set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
        set_config('enable_incremental_sort', 'off', true)`)
    return ask(tx)
  })
}
