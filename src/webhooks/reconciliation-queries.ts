/** Statements of reconciliation: which integrations can be asked, which deliveries are known, where the last run ended. */
import { and, asc, desc, eq, inArray, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'

/** Active integrations of these providers, by ascending id. */
export async function activeIntegrationsOf(
  db: Database,
  { integrations }: Tables,
  providers: readonly string[],
): Promise<number[]> {
  if (providers.length === 0) return []
  const rows = await db
    .select({ id: integrations.id })
    .from(integrations)
    .where(and(eq(integrations.isActive, true), inArray(integrations.provider, [...providers])))
    .orderBy(asc(integrations.id))
  return rows.map((row) => row.id)
}

/** Which of these deliveries of the integration are stored, whatever became of them. */
export async function knownDeliveries(
  db: Database,
  { webhooks }: Tables,
  integrationId: number,
  deliveryIds: readonly string[],
): Promise<Set<string>> {
  if (deliveryIds.length === 0) return new Set()
  const rows = await db
    .select({ deliveryId: webhooks.deliveryId })
    .from(webhooks)
    .where(and(eq(webhooks.integrationId, integrationId), inArray(webhooks.deliveryId, [...deliveryIds])))
  return new Set(rows.map((row) => row.deliveryId))
}

/** The mark: the end of the last run that listed everything and left no gap behind it. Null: there was none. */
export async function lastReconciledUntil(db: Database, { logs }: Tables, integrationId: number): Promise<Date | null> {
  const [row] = await db
    .select({ mark: sql<string>`${logs.metadata} ->> 'mark'` })
    .from(logs)
    .where(
      and(
        eq(logs.integrationId, integrationId),
        eq(logs.operation, 'webhook_reconcile'),
        eq(logs.status, 'success'),
        sql`${logs.metadata} ->> 'mark' is not null`,
      ),
    )
    .orderBy(desc(logs.id))
    .limit(1)
  return row === undefined ? null : new Date(row.mark)
}
