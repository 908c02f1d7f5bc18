/** How webhooks are claimed and settled. Rule: docs/behaviour/webhooks.md, "Claims" and "Settling". */
import type { SQL } from 'drizzle-orm'
import { and, eq, inArray, sql } from 'drizzle-orm'
import type { Claimed, ClaimedRows, ClaimRoom, Settlement } from '../claims/claimed-rows.ts'
import { claimArguments, claimNext } from '../claims/claimed-rows.ts'
import type { Database, Transaction } from '../db/client.ts'
import { MAX_SMALLINT } from '../db/schema/columns.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import { functionNamed } from '../db/sql-functions.ts'
import type { Json } from '../framework/json.ts'
import { keysOfRows, lockKeys } from './order.ts'
import { withDeliveryHeaders } from './parts.ts'

/** The state in which one row is claimed. */
export type ClaimableFrom =
  | { readonly status: 'pending' }
  /** Its worker is taken for lost. With more attempts it has been claimed since. */
  | { readonly status: 'processing'; readonly attempts: number }
  /** A replay: `processed` or `failed`. */
  | { readonly replay: true }

/**
 * Moves one row to `processing` under this claim and counts the attempt. Of two claims at once, one gets the row.
 *
 * A replay runs although the integration's health is `disabled`, since a person asked for it; other rows stay. An erased row is never
 * replayed: its payload is gone.
 *
 * @returns null: the row is in another state by now
 */
export async function claimWebhook(
  db: Database,
  tables: Tables,
  { id, claim, from }: { id: number; claim: string; from: ClaimableFrom },
): Promise<WebhookRow | null> {
  const { webhooks, integrations } = tables
  const isReplay = 'replay' in from
  const conditions = isReplay
    ? [inArray(webhooks.status, ['processed', 'failed']), isNotErased(webhooks), hasNoOtherTurn(webhooks)]
    : [
        eq(webhooks.status, from.status),
        ...(from.status === 'pending' ? [sql`${webhooks.keyTurn} is not false`] : []),
        ...(from.status === 'processing' ? [eq(webhooks.attempts, from.attempts)] : []),
        isNotHealthDisabled(integrations, sql`${webhooks.integrationId}`),
      ]
  const claimRow = (on: Database | Transaction) =>
    on
      .update(webhooks)
      .set({
        ...claimed(webhooks, claim),
        ...(isReplay ? { replayAttempt: oneMore(webhooks), keyTurn: takesTurn(webhooks) } : {}),
        ...('status' in from && from.status === 'processing' ? { lostWorkers: sql`${webhooks.lostWorkers} + 1` } : {}),
      })
      .where(and(eq(webhooks.id, id), ...conditions))
      .returning()
  const [row] = isReplay ? await underLockOfKey(db, tables, id, claimRow) : await claimRow(db)
  return row === undefined ? null : withDeliveryHeaders(db, tables, row)
}

/** At its greatest value the counter stays. The claim tells attempts apart all the same. */
export const oneMore = (webhooks: Tables['webhooks']): SQL =>
  sql`least(${webhooks.attempts} + 1, ${sql.raw(String(MAX_SMALLINT))})`

/** All that give a turn hold the lock of its key: an arrival at the same moment could give it to another row. */
async function underLockOfKey<Row>(
  db: Database,
  tables: Tables,
  id: number,
  work: (on: Database | Transaction) => Promise<Row[]>,
): Promise<Row[]> {
  const { integrationId, orderingKey } = tables.webhooks
  const keys = keysOfRows(
    await db.select({ integrationId, orderingKey }).from(tables.webhooks).where(eq(tables.webhooks.id, id)),
  )
  if (keys.length === 0) return work(db)
  return db.transaction(async (tx) => {
    await lockKeys(tx, tables, keys)
    return work(tx)
  })
}

/** A row with an ordering key has its turn while it runs. */
const takesTurn = (webhooks: Tables['webhooks']): SQL =>
  sql`case when ${webhooks.orderingKey} is not null then true end`

const hasNoOtherTurn = (webhooks: Tables['webhooks']): SQL => sql`not exists (
  select 1 from ${webhooks} h
  where h.integration_id = ${webhooks.integrationId} and h.ordering_key = ${webhooks.orderingKey} and h.key_turn
    and h.id <> ${webhooks.id})`

/** What a claim writes. */
const claimed = (webhooks: Tables['webhooks'], claim: string) =>
  ({
    status: 'processing',
    attempts: oneMore(webhooks),
    error: null,
    processedAt: null,
    dismissedAt: null,
    claim,
  }) as const

/** @param id SQL of the integration's id */
const isNotHealthDisabled = (integrations: Tables['integrations'], id: SQL): SQL =>
  sql`not exists (select 1 from ${integrations} i where i.id = ${id} and i.health_status = 'disabled')`

/** Erasure leaves neither payload nor headers; a delivery with an empty body has headers. The note in `error` may be a handler's, too. */
export const isNotErased = (webhooks: Tables['webhooks']): SQL =>
  sql`not (${webhooks.payload} = '' and ${webhooks.headers} = '{}'::jsonb)`

/** A take-up counts the attempt and the loss, of the row `r`. */
export const WEBHOOK_LOSS = {
  attempts: sql`least(r.attempts + 1, ${sql.raw(String(MAX_SMALLINT))})`,
  lostWorkers: sql`r.lost_workers + 1`,
}

/** The outcome of one attempt. */
export interface WebhookOutcome extends Settlement {
  readonly integrationId: number
  readonly status: 'processed' | 'failed'
  /** The message alone. */
  readonly error: string | null
  /** The same for the log, with the class of the error before it. */
  readonly loggedError: string | null
  readonly result: Json
  /** Whether it said only what we wrote ourselves; null: not judged. */
  readonly isOwn: boolean | null
  readonly durationMs: number
  /** It failed and is tried again, so no other row of its ordering key has its turn until then. Default false. */
  readonly keepsTurn?: boolean
}

/** @param end `loggedError`: where the log's text is another one; `durationMs` 0: no handler has run */
export function webhookOutcome(
  { id, integrationId, attempts, claim }: WebhookRow,
  end:
    | { readonly status: 'processed'; readonly result: Json }
    | { readonly status: 'failed'; readonly error: string; readonly loggedError?: string },
  durationMs: number,
  isOwn: boolean | null = null,
): WebhookOutcome {
  const error = end.status === 'failed' ? end.error : null
  const loggedError = end.status === 'failed' ? (end.loggedError ?? end.error) : null
  const result = end.status === 'processed' ? end.result : null
  return {
    id,
    integrationId,
    attempts,
    claim: claim ?? '',
    status: end.status,
    error,
    loggedError,
    result,
    isOwn,
    durationMs,
  }
}

/** Each attempt gets a log row. The attempts of a row that was replayed are logged as `webhook_replay`. */
export const claimedWebhooks = ({ webhooks, logs }: Tables): ClaimedRows<Tables['webhooks']> => ({
  table: webhooks,
  isHeld: sql`r.status = 'processing'`,
  released: sql`status = 'pending', claim = null`,
  judgement: sql`is_own`,
  settling: {
    fields: sql`status text, error text, "loggedError" text, result jsonb, "isOwn" boolean, "durationMs" int, "keepsTurn" boolean`,
    writes: sql`status = s.status, error = s.error, claim = null, lost_workers = 0, processed_at = clock_timestamp(),
      is_own = coalesce(s."isOwn", r.is_own), key_turn = case when s."keepsTurn" then r.key_turn end`,
    returns: sql`r.delivery_id, r.replay_attempt, s.status, s."loggedError", s.result, s."durationMs"`,
    logs: sql`
      insert into ${logs} (integration_id, operation, direction, status, external_id, result_data, error, duration_ms, origin)
      select integration_id, case when replay_attempt is null then 'webhook' else 'webhook_replay' end, 'inbound',
             case status when 'processed' then 'success' else 'failed' end,
             delivery_id, result, "loggedError", "durationMs", 'webhook:' || id
      from settled order by id`,
    isStored: sql`r.status = s.status and r.attempts = s.attempts and r.claim is null`,
  },
})

/**
 * Claims the next `pending` rows of many integrations, by id. Rows of integrations that their health disabled stay. So do rows that have
 * lost a worker: they get a workflow of their own. Parts have the headers of their wholes.
 */
export async function claimNextWebhooks(
  db: Database,
  tables: Tables,
  claim: string,
  room: ClaimRoom,
): Promise<Claimed<WebhookRow>> {
  const call = sql`${functionNamed(tables, 'claim_webhooks')}(${claimArguments(claim, room)})`
  const { rows, ...walk } = await claimNext<WebhookRow>(db, tables.webhooks, { call, row: 'webhook' })
  return { rows: rows.toSorted((a, b) => a.id - b.id), ...walk }
}

/** Rows that were set apart a while ago and have no workflow: it could not be started. It touches them, so that one pump gets them. */
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
        and ${isNotHealthDisabled(integrations, sql`w.integration_id`)}
      order by w.id limit ${limit} for update skip locked
    )
    update ${webhooks} w set updated_at = clock_timestamp() from left_over l where w.id = l.id
    returning w.id`)
  return rows.map(({ id }) => Number(id))
}

/** Null: it is gone. */
export async function webhookState(
  db: Database,
  { webhooks }: Tables,
  id: number,
): Promise<Pick<WebhookRow, 'integrationId' | 'status' | 'attempts' | 'lostWorkers'> | null> {
  const [row] = await db
    .select({
      integrationId: webhooks.integrationId,
      status: webhooks.status,
      attempts: webhooks.attempts,
      lostWorkers: webhooks.lostWorkers,
    })
    .from(webhooks)
    .where(eq(webhooks.id, id))
  return row ?? null
}
