/** Statements over the webhook subscriptions. */
import { and, eq, inArray, isNotNull, isNull, lt, lte, ne, or, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { Tables, WebhookSubscriptionRow } from '../db/schema/tables.ts'
import { acceptsWebhooks } from '../integrations/queries.ts'

type Changes = Partial<Omit<WebhookSubscriptionRow, 'integrationId' | 'claim'>>

export async function findSubscription(
  db: Database,
  { webhookSubscriptions: subscriptions }: Tables,
  integrationId: number,
): Promise<WebhookSubscriptionRow | null> {
  const [row] = await db.select().from(subscriptions).where(eq(subscriptions.integrationId, integrationId))
  return row ?? null
}

/** Takes the row from an earlier look that may still be under way. Null: no one has asked for a subscription. */
export async function claimSubscription(
  db: Database,
  { webhookSubscriptions: subscriptions }: Tables,
  integrationId: number,
): Promise<WebhookSubscriptionRow | null> {
  const [row] = await db
    .update(subscriptions)
    .set({ claim: sql`${subscriptions.claim} + 1` })
    .where(eq(subscriptions.integrationId, integrationId))
    .returning()
  return row ?? null
}

/** Stores what a look found. Null: a later look has the row, or it is gone; then nothing is stored. */
export async function storeLook(
  db: Database | Transaction,
  { webhookSubscriptions: subscriptions }: Tables,
  { integrationId, claim }: Pick<WebhookSubscriptionRow, 'integrationId' | 'claim'>,
  changes: Changes,
): Promise<WebhookSubscriptionRow | null> {
  const [row] = await db
    .update(subscriptions)
    .set({ ...changes, updatedAt: sql`clock_timestamp()` as never })
    .where(and(eq(subscriptions.integrationId, integrationId), eq(subscriptions.claim, claim)))
    .returning()
  return row ?? null
}

/**
 * Notes that an older secret may have been told to the provider last. It takes the row from the looks that are under way, which could
 * note another one, and has it looked at soon. False: this look has the row still, or it is gone.
 */
export async function doubtSecret(
  db: Database,
  { webhookSubscriptions: subscriptions }: Tables,
  { integrationId, claim }: Pick<WebhookSubscriptionRow, 'integrationId' | 'claim'>,
  now: Date,
): Promise<boolean> {
  const rows = await db
    .update(subscriptions)
    .set({ claim: sql`${subscriptions.claim} + 1`, secretMark: null, nextCheckAt: now })
    .where(and(eq(subscriptions.integrationId, integrationId), ne(subscriptions.claim, claim)))
    .returning({ id: subscriptions.integrationId })
  return rows.length > 0
}

/** Says whether a subscription is wanted, and that it is to be looked at. Creates the row where it is missing. */
export async function setWanted(
  db: Database | Transaction,
  { webhookSubscriptions: subscriptions }: Tables,
  integrationId: number,
  { isWanted, now }: { readonly isWanted: boolean; readonly now: Date },
): Promise<void> {
  await db
    .insert(subscriptions)
    .values({ integrationId, isWanted, nextCheckAt: now })
    .onConflictDoUpdate({ target: subscriptions.integrationId, set: { isWanted, nextCheckAt: now } })
}

/** A row that wants one, for an integration that has none yet. */
export async function wantIfUnsaid(
  db: Transaction,
  { webhookSubscriptions: subscriptions }: Tables,
  integrationId: number,
  now: Date,
): Promise<void> {
  await db
    .insert(subscriptions)
    .values({ integrationId, isWanted: true, nextCheckAt: now })
    .onConflictDoNothing({ target: subscriptions.integrationId })
}

/** Has it looked at soon. False: no one has asked for one. */
export async function makeDue(
  db: Database | Transaction,
  { webhookSubscriptions: subscriptions }: Tables,
  integrationId: number,
  now: Date,
): Promise<boolean> {
  const rows = await db
    .update(subscriptions)
    .set({ nextCheckAt: now })
    .where(eq(subscriptions.integrationId, integrationId))
    .returning({ id: subscriptions.integrationId })
  return rows.length > 0
}

/** Rows that want one, for integrations of these providers that have none and are not switched off. */
export async function wantForAll(
  db: Database,
  tables: Tables,
  { providers, dueAt, limit }: { readonly providers: readonly string[]; readonly dueAt: Date; readonly limit: number },
): Promise<void> {
  const { integrations, webhookSubscriptions: subscriptions } = tables
  const missing = await db
    .select({ integrationId: integrations.id })
    .from(integrations)
    .leftJoin(subscriptions, eq(subscriptions.integrationId, integrations.id))
    .where(
      and(inArray(integrations.provider, [...providers]), acceptsWebhooks(tables), isNull(subscriptions.integrationId)),
    )
    .orderBy(integrations.id)
    .limit(limit)
  if (missing.length === 0) return
  await db
    .insert(subscriptions)
    .values(missing.map(({ integrationId }) => ({ integrationId, isWanted: true, nextCheckAt: dueAt })))
    .onConflictDoNothing({ target: subscriptions.integrationId })
}

/** Integrations whose look was due by a moment: their workflow got no signal, or is gone. */
export async function overdueSubscriptions(
  db: Database,
  { webhookSubscriptions: subscriptions }: Tables,
  { by, limit }: { readonly by: Date; readonly limit: number },
): Promise<number[]> {
  const rows = await db
    .select({ id: subscriptions.integrationId })
    .from(subscriptions)
    .where(lte(subscriptions.nextCheckAt, by))
    .orderBy(subscriptions.nextCheckAt)
    .limit(limit)
  return rows.map(({ id }) => id)
}

/** Those that count as an incident, then those whose look is late; `all`: each that is wanted. */
export async function troubledSubscriptions(
  db: Database,
  { webhookSubscriptions: subscriptions }: Tables,
  { lateBefore, all, limit }: { readonly lateBefore: Date; readonly all: boolean; readonly limit: number },
): Promise<WebhookSubscriptionRow[]> {
  const { alertedAt, nextCheckAt, isWanted, integrationId } = subscriptions
  const isTroubled = or(isNotNull(alertedAt), lt(nextCheckAt, lateBefore))
  return db
    .select()
    .from(subscriptions)
    .where(all ? eq(isWanted, true) : isTroubled)
    .orderBy(isNull(alertedAt), integrationId)
    .limit(limit)
}
