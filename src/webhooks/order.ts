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
import type { Transaction } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import { functionNamed } from '../db/sql-functions.ts'
import type { Framework } from '../framework/context.ts'

/** Column `ordering_key` is varchar(255). */
const MAX_KEY_LENGTH = 255
/** Keys of one statement of a repair. */
const REPAIR_KEYS = 500

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

/** The call that passes their turns on, for a statement: how many rows have got one. The keys are locked. */
export const passingTurns = (tables: Tables, keys: readonly OrderedKey[]): SQL =>
  sql`${functionNamed(tables, 'pass_turns')}(${listed(keys)}::jsonb)`

const listed = (keys: readonly OrderedKey[]): string =>
  jsonText(keys.map(({ integrationId, key }) => [integrationId, key]))

/**
 * For each key without a row that has the turn: gives it to the next row.
 *
 * @param keys locked
 * @returns how many rows have got it
 */
export async function passTurns(tx: Transaction, tables: Tables, keys: readonly OrderedKey[]): Promise<number> {
  const [row] = await tx.execute<{ passed: number }>(sql`select ${passingTurns(tables, keys)} as passed`)
  return row?.passed ?? 0
}

/** The same for the keys of these rows, in a transaction of its own. The inbox is woken where a row has got its turn. */
export async function passTurnsBehind(framework: Framework, rows: readonly OrderedRow[]): Promise<void> {
  const keys = keysOfRows(rows)
  if (keys.length === 0) return
  const { db, tables, workflows } = framework
  const passed = await despiteDeadlocks(() =>
    db.transaction(async (tx) => {
      await lockKeys(tx, tables, keys)
      return passTurns(tx, tables, keys)
    }),
  )
  if (passed > 0) workflows.wakeInbox()
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
  await db.execute(sql`
    update ${webhooks} w set key_turn = null
    where w.key_turn and (w.status = 'processed' or w.status = 'failed' and (
      w.attempts >= ${config.webhook.max_attempts}::int or w.dismissed_at is not null
      or w.payload = '' and w.headers = '{}'::jsonb))`)
  for (let after: { integration_id: string; key: string } | null = { integration_id: '0', key: '' }; after !== null; ) {
    const { integration_id: id, key } = after
    const left: { integration_id: string; key: string }[] = await db.execute(sql`
      select distinct w.integration_id, w.ordering_key as key from ${webhooks} w
      where w.key_turn is false and (w.integration_id, w.ordering_key) > (${id}::bigint, ${key}::text) and not exists (
        select 1 from ${webhooks} h where h.integration_id = w.integration_id and h.ordering_key = w.ordering_key and h.key_turn
      )
      order by 1, 2 limit ${REPAIR_KEYS}`)
    await passTurnsBehind(
      framework,
      left.map((each) => ({ integrationId: Number(each.integration_id), orderingKey: each.key })),
    )
    after = left.length < REPAIR_KEYS ? null : (left.at(-1) ?? null)
  }
}
