/**
 * The webhook whose deliveries a provider lists, and integrations that name none.
 *
 * Rule: docs/behaviour/webhook-reconciliation.md, "Which webhook".
 */
import { and, asc, eq, exists, isNull, or, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { managesWebhooks, reconcilesWebhooks } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'

/** Why an integration can't be reconciled, and the command that mends it. */
export interface Unlisted {
  readonly integrationId: number
  readonly reason: string
  readonly remedy: string
}

/** The provider's id of the webhook that we registered; null: we registered no webhook. */
export async function registeredWebhook(
  db: Database,
  { webhookSubscriptions: subscriptions }: Tables,
  integrationId: number,
): Promise<string | null> {
  const [row] = await db
    .select({ id: subscriptions.subscriptionId })
    .from(subscriptions)
    .where(eq(subscriptions.integrationId, integrationId))
  return row?.id ?? null
}

/** Null: its deliveries can be listed. @param subscriptionId of the webhook that we registered */
export function unlisted(
  { id, metadata }: Pick<Integration, 'id' | 'metadata'>,
  provider: IntegrationProvider,
  subscriptionId: string | null,
): Unlisted | null {
  const key = webhookKey(provider)
  if (key === null || subscriptionId !== null || named(metadata, key)) return null
  return unlistedBy(id, provider, key)
}

/**
 * Active integrations that have received deliveries and name no webhook to list, by ascending id. One without a delivery may only
 * sync: it misses none.
 */
export async function unlistedIntegrations({ db, tables, providers }: Framework, limit: number): Promise<Unlisted[]> {
  const keys = new Map(providers.entries().flatMap(([name, provider]) => keyed(name, provider)))
  const rows = await unnamed(
    db,
    tables,
    [...keys].map(([name, { key }]) => ({ name, key })),
    limit,
  )
  return rows.flatMap((row) => {
    const found = keys.get(row.provider)
    return found === undefined ? [] : [unlistedBy(row.id, found.provider, found.key)]
  })
}

function keyed(name: string, provider: IntegrationProvider) {
  const key = webhookKey(provider)
  return key === null ? [] : [[name, { provider, key }] as const]
}

const webhookKey = (provider: IntegrationProvider): string | null =>
  reconcilesWebhooks(provider) ? (provider.reconcileWebhookKey ?? null) : null

function named(metadata: unknown, key: string): boolean {
  const value = (metadata as Readonly<Record<string, unknown>> | null)?.[key]
  return value !== undefined && value !== null && value !== ''
}

function unlistedBy(id: number, provider: IntegrationProvider, key: string): Unlisted {
  const update = `integrations update ${id} --metadata ${key}=ID`
  const register = `integrations register-webhooks ${id}`
  return managesWebhooks(provider)
    ? {
        integrationId: id,
        reason: `no webhook to list; set metadata ${key}, or register the webhook: ${register}`,
        remedy: register,
      }
    : { integrationId: id, reason: `no webhook to list; set metadata ${key}: ${update}`, remedy: update }
}

async function unnamed(
  db: Database,
  { integrations, webhooks, webhookSubscriptions: subscriptions }: Tables,
  keys: readonly { readonly name: string; readonly key: string }[],
  limit: number,
): Promise<{ id: number; provider: string }[]> {
  if (keys.length === 0) return []
  const namesNone = keys.map(({ name, key }) =>
    and(eq(integrations.provider, name), sql`coalesce(${integrations.metadata} ->> ${key}, '') = ''`),
  )
  return db
    .select({ id: integrations.id, provider: integrations.provider })
    .from(integrations)
    .leftJoin(subscriptions, eq(subscriptions.integrationId, integrations.id))
    .where(
      and(
        eq(integrations.isActive, true),
        or(...namesNone),
        isNull(subscriptions.subscriptionId),
        exists(db.select({ one: sql`1` }).from(webhooks).where(eq(webhooks.integrationId, integrations.id))),
      ),
    )
    .orderBy(asc(integrations.id))
    .limit(limit)
}
