/** Statements over the webhooks table. A claim is one statement; its docstring names the race it wins. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, inArray, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import type { Json } from '../framework/json.ts'

/** The greatest smallint. A row that is claimed still more often stays there; its claim tells its attempts apart. */
const MAX_ATTEMPTS = 32_767

/** The state in which one row is claimed. */
export type ClaimableFrom =
  | { readonly status: 'pending' }
  /** Its worker is taken for lost: nobody has claimed it since it had so many attempts. */
  | { readonly status: 'processing'; readonly attempts: number }
  /** A replay: `processed` or `failed`. */
  | { readonly replay: true }

/**
 * Moves one row to `processing` under this claim and counts the attempt. Null: its state is another by now; of two who ask
 * at once, one gets it.
 *
 * A replay runs although the integration's health is `disabled`, since somebody asked for it; other rows stay. What was
 * erased is never replayed: its payload is gone.
 */
export async function claimWebhook(
  db: Database,
  { webhooks, integrations }: Tables,
  { id, claim, from }: { id: number; claim: string; from: ClaimableFrom },
): Promise<WebhookRow | null> {
  const isReplay = 'replay' in from
  const conditions = isReplay
    ? [inArray(webhooks.status, ['processed', 'failed']), isNotErased(webhooks)]
    : [
        eq(webhooks.status, from.status),
        ...(from.status === 'processing' ? [eq(webhooks.attempts, from.attempts)] : []),
        isNotHealthDisabled(integrations, sql`${webhooks.integrationId}`),
      ]
  const [row] = await db
    .update(webhooks)
    .set({
      ...claimed(webhooks, claim),
      ...(isReplay ? { replayAttempt: oneMore(webhooks) } : {}),
      ...('status' in from && from.status === 'processing' ? { lostWorkers: sql`${webhooks.lostWorkers} + 1` } : {}),
    })
    .where(and(eq(webhooks.id, id), ...conditions))
    .returning()
  return row ?? null
}

export const oneMore = (webhooks: Tables['webhooks']): SQL =>
  sql`least(${webhooks.attempts} + 1, ${sql.raw(String(MAX_ATTEMPTS))})`

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

/** By what erasure leaves, never by its note in `error`, which a handler may say as well. A delivery with an empty body has headers. */
export const isNotErased = (webhooks: Tables['webhooks']): SQL =>
  sql`not (${webhooks.payload} = '' and ${webhooks.headers} = '{}'::jsonb)`

/** The rows that an earlier try of the same activity still holds: its worker died, or it could not settle them. */
export async function webhooksHeldBy(db: Database, { webhooks }: Tables, claim: string): Promise<WebhookRow[]> {
  return db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.status, 'processing'), eq(webhooks.claim, claim)))
    .orderBy(asc(webhooks.id))
}

/** Takes up a row whose worker died: counts the attempt and the loss. Null when somebody else has moved it since. */
export async function takeUpWebhook(db: Database, { webhooks }: Tables, row: WebhookRow): Promise<WebhookRow | null> {
  const [taken] = await db
    .update(webhooks)
    .set({ attempts: oneMore(webhooks), lostWorkers: sql`${webhooks.lostWorkers} + 1` })
    .where(and(eq(webhooks.id, row.id), ...stillHeldAs(webhooks, row)))
    .returning()
  return taken ?? null
}

/** What became of one attempt. */
export interface WebhookOutcome {
  readonly id: number
  readonly integrationId: number
  readonly attempts: number
  readonly claim: string
  readonly status: 'processed' | 'failed'
  /** The message alone. */
  readonly error: string | null
  /** The same for the log, with the class of the error before it. */
  readonly loggedError: string | null
  readonly result: Json
  readonly durationMs: number
}

/**
 * Ends attempts and writes a log line for each, in one statement: all of it is stored, or nothing. The attempts of a row
 * that was replayed are logged as `webhook_replay`.
 *
 * @returns the ids that were settled. A row that was claimed anew since (`attempts` or `claim` differ) is not among them:
 *   the later attempt's outcome counts.
 */
export async function settleWebhooks(
  db: Database,
  { webhooks, logs }: Tables,
  outcomes: readonly WebhookOutcome[],
): Promise<Set<number>> {
  if (outcomes.length === 0) return new Set()
  const rows = await db.execute<{ id: string }>(sql`
    with outcome as (
      select * from jsonb_to_recordset(${jsonText(outcomes)}::jsonb) as o
        (id bigint, attempts int, claim text, status text, error text, "loggedError" text, result jsonb, "durationMs" int)
    ), settled as (
      update ${webhooks} w
      set status = o.status, error = o.error, claim = null, lost_workers = 0,
          processed_at = clock_timestamp(), updated_at = clock_timestamp()
      from outcome o
      where w.id = o.id and w.status = 'processing' and w.attempts = o.attempts and w.claim = o.claim
      returning w.id, w.integration_id, w.delivery_id, w.replay_attempt, o.status, o."loggedError", o.result,
                o."durationMs"
    ), logged as (
      insert into ${logs} (integration_id, operation, direction, status, external_id, result_data, error, duration_ms)
      select integration_id, case when replay_attempt is null then 'webhook' else 'webhook_replay' end, 'inbound',
             case status when 'processed' then 'success' else 'failed' end,
             delivery_id, result, "loggedError", "durationMs"
      from settled order by id
    )
    select id from settled`)
  return new Set(rows.map((row) => Number(row.id)))
}

/**
 * Of outcomes that a settlement left out, those whose very attempt has been settled so: the settlement before it was
 * committed, and its answer was lost on the way.
 */
export async function settledBefore(
  db: Database,
  { webhooks }: Tables,
  outcomes: readonly WebhookOutcome[],
): Promise<Set<number>> {
  if (outcomes.length === 0) return new Set()
  const rows = await db.execute<{ id: string }>(sql`
    select w.id
    from ${webhooks} w
    join jsonb_to_recordset(${jsonText(outcomes.map(({ id, attempts, status }) => ({ id, attempts, status })))}::jsonb)
      as o (id bigint, attempts int, status text)
      on w.id = o.id and w.status = o.status and w.attempts = o.attempts and w.claim is null`)
  return new Set(rows.map((row) => Number(row.id)))
}

/**
 * Gives claimed rows back that no handler has seen; the attempt does not count. One that a later try has taken up meanwhile
 * is that one's.
 *
 * @returns how many went back
 */
export async function handBackWebhooks(
  db: Database,
  { webhooks }: Tables,
  rows: readonly Pick<WebhookRow, 'id' | 'attempts' | 'claim'>[],
): Promise<number> {
  if (rows.length === 0) return 0
  const given = rows.map(({ id, attempts, claim }) => ({ id, attempts, claim }))
  const back = await db.execute(sql`
    update ${webhooks} w
    set status = 'pending', attempts = w.attempts - 1, claim = null, updated_at = clock_timestamp()
    from jsonb_to_recordset(${jsonText(given)}::jsonb) as r (id bigint, attempts int, claim text)
    where w.id = r.id and w.status = 'processing' and w.attempts = r.attempts and w.claim = r.claim
    returning w.id`)
  return back.length
}

function stillHeldAs(webhooks: Tables['webhooks'], row: WebhookRow): SQL[] {
  return [eq(webhooks.status, 'processing'), eq(webhooks.attempts, row.attempts), sql`${webhooks.claim} = ${row.claim}`]
}
