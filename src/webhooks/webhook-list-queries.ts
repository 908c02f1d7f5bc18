/** What is read of webhooks for people: pages without payloads, and one row whole. */
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, getTableColumns, gte, isNotNull, isNull, lt, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'

/** Which rows are meant; what is given adds up. */
export interface WebhookFilter {
  readonly integration?: number | undefined
  readonly provider?: string | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  readonly status?: WebhookRow['status'] | undefined
  /** True: failed ones that were dismissed, and no others. Default false: those are left out. */
  readonly dismissed?: boolean | undefined
  /** The event type, as stored. */
  readonly event?: string | undefined
  /** Stored at this moment or after it. */
  readonly since?: Date | undefined
  /** Stored before this moment. */
  readonly until?: Date | undefined
}

/** All but what was delivered: a payload may be of a megabyte. */
export type WebhookSummary = Omit<WebhookRow, 'payload' | 'headers'>

/** Newest id first, below the id given. */
export async function pageOfWebhooks(
  db: Database,
  tables: Tables,
  filter: WebhookFilter,
  { below, limit }: { below: number | undefined; limit: number },
): Promise<WebhookSummary[]> {
  const { webhooks } = tables
  const { payload: _payload, headers: _headers, ...columns } = getTableColumns(webhooks)
  return db
    .select(columns)
    .from(webhooks)
    .where(and(...selected(tables, filter), below === undefined ? undefined : lt(webhooks.id, below)))
    .orderBy(desc(webhooks.id))
    .limit(limit)
}

export async function findWebhook(db: Database, { webhooks }: Tables, id: number): Promise<WebhookRow | null> {
  const [row] = await db.select().from(webhooks).where(eq(webhooks.id, id))
  return row ?? null
}

/** The conditions of a filter. Those on the integration are a question of their own, so that its row is never locked along. */
export function selected(
  { webhooks, integrations }: Tables,
  { integration, provider, owner, status, dismissed = false, event, since, until }: WebhookFilter,
): SQL[] {
  const conditions: SQL[] = [dismissed ? isNotNull(webhooks.dismissedAt) : isNull(webhooks.dismissedAt)]
  if (integration !== undefined) conditions.push(eq(webhooks.integrationId, integration))
  if (status !== undefined) conditions.push(eq(webhooks.status, status))
  if (event !== undefined) conditions.push(eq(webhooks.eventType, event))
  if (since !== undefined) conditions.push(gte(webhooks.createdAt, since))
  if (until !== undefined) conditions.push(lt(webhooks.createdAt, until))
  const ofIntegration = and(
    provider === undefined ? undefined : eq(integrations.provider, provider),
    owner === undefined ? undefined : eq(integrations.ownerType, owner.type),
    owner === undefined ? undefined : eq(integrations.ownerId, owner.id),
  )
  if (ofIntegration !== undefined)
    conditions.push(
      sql`${webhooks.integrationId} in (select ${integrations.id} from ${integrations} where ${ofIntegration})`,
    )
  return conditions
}
