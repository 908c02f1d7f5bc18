/** What an operator's list of integrations reads. */
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, isNotNull, isNull, lt } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { HealthStatus } from './health-rules.ts'

export interface NewestIntegrations {
  readonly provider?: string | undefined
  readonly health?: HealthStatus | undefined
  readonly active?: boolean | undefined
  readonly stale?: boolean | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  /** Ids below this one: the last of the page before. */
  readonly after?: number | undefined
}

/** Newest first. */
export async function newestIntegrations(
  db: Database,
  { integrations }: Tables,
  { provider, health, active, stale, owner, after }: NewestIntegrations,
  limit: number,
): Promise<IntegrationRow[]> {
  const conditions: SQL[] = []
  if (provider !== undefined) conditions.push(eq(integrations.provider, provider))
  if (health !== undefined) conditions.push(eq(integrations.healthStatus, health))
  if (active !== undefined) conditions.push(eq(integrations.isActive, active))
  if (stale !== undefined)
    conditions.push(stale ? isNotNull(integrations.syncStaleAlertedAt) : isNull(integrations.syncStaleAlertedAt))
  if (owner !== undefined) conditions.push(eq(integrations.ownerType, owner.type), eq(integrations.ownerId, owner.id))
  if (after !== undefined) conditions.push(lt(integrations.id, after))
  return db
    .select()
    .from(integrations)
    .where(and(...conditions))
    .orderBy(desc(integrations.id))
    .limit(limit)
}
