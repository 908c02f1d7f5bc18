/** What was handled, from the rows of the copy. Rule: docs/behaviour/rehearsal.md, "What is rehearsed". */
import type { AnyColumn, SQL } from 'drizzle-orm'
import { and, asc, desc, eq, gte, inArray, lte, sql } from 'drizzle-orm'
import { keptAnswers } from '../calls/response-cache.ts'
import type { LogRow, RequestRow, SyncItemRow, WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { jsonEquals } from '../framework/json.ts'
import type { Handled, PieceKind, RecordedCall, RehearsalInput } from './rehearsal-jobs.ts'
import type { StoredAttempt } from './stored-answer-rules.ts'

/** A call of the log with what it was answered in the end. */
export interface StoredCall extends RecordedCall {
  readonly last: StoredAttempt
  /** Its answer is kept as the call returned it. */
  readonly isCached: boolean
}

/** A delivery or an item that was handled. */
export type HandledRow =
  | { readonly kind: 'webhook'; readonly handledAt: Date; readonly row: WebhookRow }
  | { readonly kind: 'item'; readonly handledAt: Date; readonly row: SyncItemRow }

/** Which row was handled, and when. */
export interface HandledRef {
  readonly kind: PieceKind
  readonly id: number
  readonly handledAt: Date
}

/** `updated_at` may be rounded to another millisecond than the moment that was written with it. */
const ROUNDING_MS = 1_000

/** The oldest first, in the order in which they were handled. Each statement asks as an index has the rows. */
export async function handledSince(
  { db, tables: { webhooks, syncItems } }: Framework,
  { since, limit, integrationId }: RehearsalInput,
): Promise<{ readonly refs: HandledRef[]; readonly more: boolean }> {
  const ofOne = (column: AnyColumn): SQL | undefined =>
    integrationId === undefined ? undefined : eq(column, integrationId)
  const itemsOf = (status: 'success' | 'failed') =>
    db
      .select({ id: syncItems.id, handledAt: syncItems.completedAt })
      .from(syncItems)
      .where(
        and(eq(syncItems.status, status), gte(syncItems.completedAt, new Date(since)), ofOne(syncItems.integrationId)),
      )
      .orderBy(asc(syncItems.completedAt), asc(syncItems.id))
      .limit(limit + 1)
  const [deliveries, succeeded, failed] = await Promise.all([
    db
      .select({ id: webhooks.id, handledAt: webhooks.processedAt })
      .from(webhooks)
      .where(
        and(
          inArray(webhooks.status, ['processed', 'failed']),
          gte(webhooks.processedAt, new Date(since)),
          gte(webhooks.updatedAt, new Date(Date.parse(since) - ROUNDING_MS)),
          ofOne(webhooks.integrationId),
        ),
      )
      .orderBy(asc(webhooks.processedAt), asc(webhooks.id))
      .limit(limit + 1),
    itemsOf('success'),
    itemsOf('failed'),
  ])
  const refs = [
    ...deliveries.map((row) => refOf('webhook', row)),
    ...[...succeeded, ...failed].map((row) => refOf('item', row)),
  ].toSorted((a, b) => a.handledAt.getTime() - b.handledAt.getTime() || a.id - b.id)
  return { refs: refs.slice(0, limit), more: refs.length > limit }
}

/** A settled row has the moment. */
const refOf = (kind: PieceKind, { id, handledAt }: { id: number; handledAt: Date | null }): HandledRef => {
  return { kind, id, handledAt: handledAt as Date }
}

/** The rows with what is known of their last attempts, in the same order; without those that are gone. */
export async function readHandled(
  framework: Framework,
  refs: readonly HandledRef[],
): Promise<{ readonly piece: HandledRow; readonly last: LastAttempt }[]> {
  const { db, tables } = framework
  const { webhooks, syncItems, logs, requests } = tables
  const idsOf = (kind: PieceKind): number[] => refs.filter((ref) => ref.kind === kind).map(({ id }) => id)
  const roots = refs.map(({ kind, id }) => `${kind}:${id}`)
  const [deliveries, items, attempts, inside] = await Promise.all([
    db
      .select()
      .from(webhooks)
      .where(inArray(webhooks.id, idsOf('webhook'))),
    db
      .select()
      .from(syncItems)
      .where(inArray(syncItems.id, idsOf('item'))),
    db
      .select()
      .from(logs)
      .where(and(inArray(logs.origin, roots), inArray(logs.operation, ['webhook', 'webhook_replay', 'sync_item'])))
      .orderBy(asc(logs.id)),
    originsInside(framework, roots),
  ])
  const made = await db
    .select()
    .from(requests)
    .where(inArray(requests.origin, [...inside.keys()]))
    .orderBy(asc(requests.id))
  const rows = new Map<string, HandledRow['row']>([
    ...deliveries.map((row) => [`webhook:${row.id}`, row] as const),
    ...items.map((row) => [`item:${row.id}`, row] as const),
  ])
  return refs.flatMap(({ kind, id, handledAt }) => {
    const root = `${kind}:${id}`
    const row = rows.get(root)
    if (row === undefined) return []
    const piece = { kind, row, handledAt } as HandledRow
    const own = {
      // A handler or a listener may log an operation `webhook` of its own; that of an attempt names the delivery.
      attempts: attempts.filter(
        ({ origin, operation, externalId }) =>
          origin === root &&
          (kind === 'item' ? operation === 'sync_item' : externalId === (row as WebhookRow).deliveryId),
      ),
      made: made.filter(({ origin }) => inside.get(origin as string) === root),
    }
    return [{ piece, last: lastAttempt(piece, own) }]
  })
}

/** Each origin with the piece that it is inside of: also operations inside the handling, and operations inside those. */
async function originsInside(
  { db, tables: { logs } }: Framework,
  roots: readonly string[],
): Promise<Map<string, string>> {
  const rows = await db.execute<{ root: string; origin: string }>(sql`
    with recursive inside (root, origin) as (
      select r, r from jsonb_array_elements_text(${JSON.stringify(roots)}::jsonb) as r
      union
      select i.root, 'log:' || l.id from ${logs} l join inside i on l.origin = i.origin
    ) select root, origin from inside`)
  return new Map(rows.map(({ root, origin }) => [origin, root]))
}

/** What is known of a piece's last attempt. */
export interface LastAttempt {
  readonly handled: Handled
  readonly calls: readonly StoredCall[]
  /** The error as its log has it, with its class before it; null: none. */
  readonly loggedError: string | null
  /** Why the log does not say which calls were the last attempt's; null: it does. */
  readonly unclear: string | null
}

function lastAttempt(
  piece: HandledRow,
  { attempts, made }: { readonly attempts: readonly LogRow[]; readonly made: readonly RequestRow[] },
): LastAttempt {
  const { kind, row } = piece
  // Of an item only failed attempts have a log.
  const last = kind === 'webhook' || row.status === 'failed' ? attempts.at(-1) : undefined
  const before = attempts.filter((log) => log !== last)
  const previous = before.at(-1)
  const ofLast = previous === undefined ? made : made.filter(({ createdAt }) => createdAt > previous.createdAt)
  return {
    handled: handledAs(piece, last),
    calls: storedCalls(ofLast),
    loggedError: last?.error ?? null,
    unclear: ofLast.length === 0 ? null : unclear(piece, before.length, ofLast),
  }
}

function handledAs({ kind, row }: HandledRow, last: LogRow | undefined): Handled {
  const status = row.status === 'failed' ? 'failed' : 'succeeded'
  return { status, error: row.error, result: kind === 'webhook' ? ((last?.resultData ?? null) as Json) : null }
}

/** Attempts without a log, such as those of a lost worker, may have made some of the calls. */
function unclear({ kind, row }: HandledRow, before: number, calls: readonly RequestRow[]): string | null {
  if (row.attempts > before + 1)
    return `it took ${row.attempts} attempts, and the log does not say which of its calls the last one made`
  const wasPutOff = kind === 'item' && (row.putOff > 0 || calls.some(({ failureClass }) => failureClass === 'throttle'))
  return wasPutOff ? 'it was put off, and the log does not say which of its calls the last attempt made' : null
}

/** The attempts of a call are one call: `retry_of` names the first. */
function storedCalls(rows: readonly RequestRow[]): StoredCall[] {
  const first = new Map<number, RequestRow[]>()
  for (const row of rows) {
    const chain = row.retryOf === null ? undefined : first.get(row.retryOf)
    // A caller's own `retryOf` names a call of another piece, or one that was asked for otherwise.
    if (chain !== undefined && isRetry(chain[0] as RequestRow, row)) chain.push(row)
    else first.set(row.id, [row])
  }
  return [...first.values()].map((chain) => {
    const [begun, last] = [chain[0] as RequestRow, chain.at(-1) as RequestRow]
    return {
      method: begun.method,
      endpoint: begun.endpoint,
      data: begun.requestData,
      idempotencyKey: begun.idempotencyKey,
      relatedTo: begun.relatedType === null ? null : `${begun.relatedType}:${begun.relatedId}`,
      beganAtMs: begun.createdAt.getTime() - (begun.durationMs ?? 0),
      settledAtMs: last.createdAt.getTime(),
      last,
      isCached: last.expiresAt !== null,
    }
  })
}

const isRetry = (a: RequestRow, b: RequestRow): boolean =>
  a.failureClass !== null && a.method === b.method && a.endpoint === b.endpoint && a.requestData === b.requestData

/** The answer that the response cache had of a call when the piece was handled; null: none. */
export async function cachedThen(
  { db, tables }: Framework,
  integrationId: number,
  requestHash: string,
  handledAt: Date,
): Promise<string | null> {
  const { requests } = tables
  const [row] = await db
    .select({ body: requests.responseData })
    .from(requests)
    .where(and(keptAnswers(tables, integrationId, requestHash, handledAt), lte(requests.createdAt, handledAt)))
    .orderBy(desc(requests.id))
    .limit(1)
  return row?.body ?? null
}

/** Whether another piece of work had spent the key by then. */
export async function spentElsewhere(
  { db, tables: { requests } }: Framework,
  { kind, row, handledAt }: HandledRow,
  key: string,
): Promise<boolean> {
  const rows = await db
    .select({ id: requests.id })
    .from(requests)
    .where(
      and(
        eq(requests.integrationId, row.integrationId),
        eq(requests.idempotencyKey, key),
        lte(requests.createdAt, handledAt),
        sql`${requests.origin} is distinct from ${`${kind}:${row.id}`}`,
      ),
    )
    .limit(1)
  return rows.length > 0
}

const WORKER_LOST = 'worker lost'
/** Errors of items that no attempt has ended: a cancelled run, an abandoned item, lost workers, a retry given up. */
const GIVEN_UP = ['cancelled', 'abandoned', WORKER_LOST, 'its retry was given up']

/** Why a row is not run at all; null: it is. */
export function unplayable(piece: HandledRow, { handled: { result }, loggedError }: LastAttempt): string | null {
  const { kind, row } = piece
  // In the log of a webhook an error that its handler has thrown has its class before it.
  if (kind === 'webhook' ? loggedError === WORKER_LOST : row.status === 'failed' && GIVEN_UP.includes(row.error ?? ''))
    return `it was given up without an attempt that ended: ${row.error}`
  if (kind === 'item')
    return row.payload === null
      ? 'its payload has been erased'
      : row.recordHash === null
        ? null
        : 'its listener is told how its record has changed (skipUnchanged), which is not kept'
  if (row.payload === '' && Object.keys(row.headers).length === 0) return 'its payload has been erased or pruned'
  if (jsonEquals(result, { status: 'coalesced' })) return 'it was coalesced: a newer one of its key ran in its place'
  return jsonEquals(result, { status: 'stale' }) ? 'it was stale: its handler did not run' : null
}

export const typeOf = (kind: PieceKind, row: WebhookRow | SyncItemRow): string | null =>
  kind === 'webhook' ? (row as WebhookRow).eventType : (row as SyncItemRow).eventClass
