/** Failed webhooks that somebody has given up. Rule: docs/behaviour/webhook-replay.md, "Dismissing". */

import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, WebhookNotFailed } from '../framework/errors.ts'
import { findIntegration } from '../integrations/queries.ts'
import type { DismissalFilter } from './dismissal-queries.ts'
import { dismissChunk, markDismissed, previewDismissal } from './dismissal-queries.ts'
import type { ListWebhooks } from './list.ts'
import { checkFilter, checkLimit, getWebhook } from './list.ts'
import { highestWebhookId } from './replay-queries.ts'

const DEFAULT_LIMIT = 1_000
const CHUNK_ROWS = 500
const PREVIEWED_IDS = 10

/** Which failed webhooks are meant; lowest id first, at most `limit`, by default 1,000. */
export type DismissWebhooks = Omit<ListWebhooks, 'status' | 'after' | 'dismissed'>

export interface Dismissal {
  /** Takes the marks back, of those that are dismissed. Default false. */
  readonly undo?: boolean | undefined
}

export interface DismissedWebhook {
  readonly webhookId: number
  readonly integrationId: number
  /** Null: it is not dismissed. */
  readonly dismissedAt: Date | null
}

export interface DismissalPreview {
  /** At most the limit. */
  readonly count: number
  /** The first ten. */
  readonly ids: readonly number[]
  /** More are meant than the limit lets through. */
  readonly more: boolean
}

export interface DismissedWebhooks {
  readonly dismissed: number
  /** How many of each integration. */
  readonly integrations: readonly { readonly id: number; readonly dismissed: number }[]
}

/** Does nothing where it is as asked already. @throws WebhookNotFound, WebhookNotFailed */
export async function dismissWebhook(
  framework: Framework,
  id: number,
  { undo = false }: Dismissal = {},
): Promise<DismissedWebhook> {
  const { integrationId, status } = await getWebhook(framework, id)
  const marked = await markDismissed(framework.db, framework.tables, id, !undo)
  // Moved on after we had looked at it: as a row that is worked on is.
  if (marked === 'not failed') throw new WebhookNotFailed(id, status === 'failed' ? 'processing' : status)
  return { webhookId: id, integrationId, dismissedAt: marked.dismissedAt }
}

/** What `dismissMany()` would do. @throws InvalidArgumentException, IntegrationNotFound */
export async function previewDismissals(
  framework: Framework,
  given: DismissWebhooks = {},
  dismissal: Dismissal = {},
): Promise<DismissalPreview> {
  const { filter, limit } = await checked(framework, given, dismissal)
  return previewDismissal(framework.db, framework.tables, filter, { limit, ids: PREVIEWED_IDS })
}

/**
 * Marks many, 500 at a time, lowest id first. What is stored after the beginning is not meant. Broken off, it has done some.
 *
 * @throws InvalidArgumentException, IntegrationNotFound
 */
export async function dismissWebhooks(
  framework: Framework,
  given: DismissWebhooks = {},
  dismissal: Dismissal = {},
): Promise<DismissedWebhooks> {
  const { db, tables, logger } = framework
  const { filter, limit } = await checked(framework, given, dismissal)
  const highestId = await highestWebhookId(db, tables)
  const byIntegration = new Map<number, number>()
  let afterId = 0
  let left = limit
  for (let isOver = false; left > 0 && !isOver; ) {
    const size = Math.min(CHUNK_ROWS, left)
    const rows = await dismissChunk(db, tables, filter, { afterId, highestId, limit: size })
    for (const { integrationId } of rows) byIntegration.set(integrationId, (byIntegration.get(integrationId) ?? 0) + 1)
    afterId = rows.at(-1)?.id ?? afterId
    left -= rows.length
    isOver = rows.length < size
  }
  const dismissed = limit - left
  const integrations = [...byIntegration].map(([id, count]) => ({ id, dismissed: count })).sort((a, b) => a.id - b.id)
  logger.info(
    {
      event: 'webhook.dismissed',
      webhooks: dismissed,
      integrations: integrations.length,
      undone: dismissal.undo === true,
    },
    'failed webhooks dismissed, or no more',
  )
  return { dismissed, integrations }
}

async function checked(
  { db, tables }: Framework,
  { limit = DEFAULT_LIMIT, ...filter }: DismissWebhooks,
  { undo = false }: Dismissal,
): Promise<{ filter: DismissalFilter; limit: number }> {
  checkLimit(limit)
  checkFilter(filter)
  const { integration } = filter
  if (integration !== undefined && (await findIntegration(db, tables, integration)) === null)
    throw new IntegrationNotFound(integration)
  return { filter: { ...filter, status: 'failed', dismissed: undo }, limit }
}
