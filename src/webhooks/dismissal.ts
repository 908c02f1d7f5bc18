/** Failed webhooks that an operator has given up. Rule: docs/behaviour/webhook-replay.md, "Dismissing". */

import { and, eq, sql } from 'drizzle-orm'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { WebhookNotFailed } from '../framework/errors.ts'
import type { Meant, OnChangedWebhooks, ReplayPreview } from './bulk.ts'
import { changeMany, checkMany, previewMany } from './bulk.ts'
import type { ListWebhooks } from './list.ts'
import { getWebhook, selected } from './list.ts'
import { passTurnsBehind } from './order.ts'

/** Which failed webhooks are meant; lowest id first, at most `limit`, by default 1,000. */
export type DismissWebhooks = Omit<ListWebhooks, 'status' | 'after' | 'dismissed'>

export interface Dismissal {
  /** Takes marks back. Default false. */
  readonly undo?: boolean | undefined
}

export interface DismissedWebhook {
  readonly webhookId: number
  readonly integrationId: number
  /** Null: it is not dismissed. */
  readonly dismissedAt: Date | null
}

export type DismissalPreview = Omit<ReplayPreview, 'waiting'>

export interface DismissedWebhooks {
  readonly dismissed: number
  /** How many of each integration. */
  readonly integrations: readonly { readonly id: number; readonly dismissed: number }[]
  /** The limit was reached, and more rows are meant. */
  readonly more: boolean
}

/** Does nothing where it is as asked already. @throws WebhookNotFound, WebhookNotFailed */
export async function dismissWebhook(
  framework: Framework,
  id: number,
  { undo = false }: Dismissal = {},
): Promise<DismissedWebhook> {
  const { db, tables } = framework
  const { integrationId, orderingKey, status } = await getWebhook(framework, id)
  const [marked] = await db
    .update(tables.webhooks)
    .set(mark(tables, !undo))
    .where(and(eq(tables.webhooks.id, id), eq(tables.webhooks.status, 'failed')))
    .returning({ dismissedAt: tables.webhooks.dismissedAt })
  // It has moved on since: a worker has it, for example.
  if (marked === undefined) throw new WebhookNotFailed(id, status === 'failed' ? 'processing' : status)
  await passTurnsBehind(framework, [{ integrationId, orderingKey }])
  return { webhookId: id, integrationId, dismissedAt: marked.dismissedAt }
}

/** What `dismissMany()` would do. @throws InvalidArgumentException, IntegrationNotFound */
export async function previewDismissals(
  framework: Framework,
  given: DismissWebhooks = {},
  dismissal: Dismissal = {},
): Promise<DismissalPreview> {
  const { waiting: _waiting, ...preview } = await previewMany(framework, await meantBy(framework, given, dismissal))
  return preview
}

/**
 * Marks many, 500 at a time, lowest id first. A webhook that is stored after the beginning is not meant. Broken off, it has marked some.
 *
 * @throws InvalidArgumentException, IntegrationNotFound
 */
export async function dismissWebhooks(
  framework: Framework,
  given: DismissWebhooks = {},
  { undo = false, onChanged }: Dismissal & OnChangedWebhooks = {},
): Promise<DismissedWebhooks> {
  const meant = await meantBy(framework, given, { undo })
  const changed = await changeMany(framework, meant, mark(framework.tables, !undo), async (rows) => {
    onChanged?.(rows)
    await passTurnsBehind(framework, rows)
  })
  const dismissed = changed.count
  const integrations = changed.integrations.map(({ id, count }) => ({ id, dismissed: count }))
  framework.logger.info(
    { event: 'webhook.dismissed', webhooks: dismissed, integrations: integrations.length, undone: undo },
    'failed webhooks were dismissed, or their dismissal was undone',
  )
  return { dismissed, integrations, more: dismissed === meant.limit && (await changed.areMore()) }
}

/** Failed webhooks: those that are dismissed, or those that are not. */
async function meantBy(
  framework: Framework,
  { limit: given, ...filter }: DismissWebhooks,
  { undo = false }: Dismissal,
): Promise<Meant> {
  const limit = await checkMany(framework, { ...filter, limit: given })
  return { limit, conditions: selected(framework.tables, { ...filter, status: 'failed', dismissed: undo }) }
}

/** The first mark counts. `updated_at` stays: the webhook has not changed, and one whose mark is taken back has not failed again. */
const mark = ({ webhooks }: Tables, isDismissed: boolean) => ({
  // Unqualified: `set` names columns of the row itself.
  dismissedAt: isDismissed ? sql`coalesce(dismissed_at, clock_timestamp())` : null,
  updatedAt: sql`${webhooks.updatedAt}`,
  // A dismissed one holds up no other one of its ordering key any more. Taking a mark back moves no turn.
  ...(isDismissed ? { keyTurn: null } : {}),
})
