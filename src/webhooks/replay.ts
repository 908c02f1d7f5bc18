/** Running settled webhooks again: one at once, or many through the queue. Rule: docs/behaviour/webhook-replay.md. */

import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException, WebhookNotReplayable } from '../framework/errors.ts'
import { findIntegration } from '../integrations/queries.ts'
import type { WebhookDetail } from './list.ts'
import { checkFilter, checkLimit, getWebhook } from './list.ts'
import type { ReplayFilter, ReplayPreview } from './replay-queries.ts'
import { highestWebhookId, isMoreToReplay, previewReplay, replayChunk } from './replay-queries.ts'
import type { ProcessWebhookResult } from './webhook-jobs.ts'
import type { WebhookFilter } from './webhook-list-queries.ts'

const DEFAULT_LIMIT = 1_000
const CHUNK_ROWS = 500
const PREVIEWED_IDS = 10

export type { ReplayPreview }

export interface ReplayWebhooks extends WebhookFilter {
  /** Default `failed`. */
  readonly status?: 'processed' | 'failed' | undefined
  /** At most so many, lowest id first; at least 1. Default 1,000. */
  readonly limit?: number | undefined
}

export interface StartedReplay {
  readonly webhookId: number
  readonly integrationId: number
  readonly workflowId: string
}

export interface ReplayedWebhooks {
  readonly replayed: number
  /** How many of each integration. */
  readonly integrations: readonly { readonly id: number; readonly replayed: number }[]
  /** The limit was reached, and more rows are meant. */
  readonly more: boolean
}

/**
 * Runs one webhook again and waits for its end.
 *
 * @throws WebhookNotFound; WebhookNotReplayable when it is not settled, or erased; BackendUnreachable
 */
export async function replayWebhook(framework: Framework, id: number): Promise<ProcessWebhookResult> {
  const { integrationId } = await replayableWebhook(framework, id)
  const result = await framework.workflows.runProcessWebhook({ webhookId: id, replay: true }, integrationId)
  if (result === 'already running') throw held(id)
  if (result.outcome !== 'not claimed') return result
  // It was moved on after we had looked at it.
  await replayableWebhook(framework, id)
  throw held(id)
}

/**
 * Starts the same and does not wait.
 *
 * @param workflowId the id that the job has: it can be asked there how far it is
 * @throws as {@link replayWebhook}
 */
export async function startReplay(framework: Framework, id: number, workflowId: string): Promise<StartedReplay> {
  const { integrationId } = await replayableWebhook(framework, id)
  if (
    (await framework.workflows.startProcessWebhook({ webhookId: id, replay: true }, integrationId)) ===
    'already running'
  )
    throw held(id)
  return { webhookId: id, integrationId, workflowId }
}

/** What {@link replayWebhooks} would do. @throws InvalidArgumentException, IntegrationNotFound */
export async function previewReplays(framework: Framework, given: ReplayWebhooks = {}): Promise<ReplayPreview> {
  const { filter, limit } = await checked(framework, given)
  return previewReplay(framework.db, framework.tables, filter, { limit, ids: PREVIEWED_IDS })
}

/**
 * Makes settled webhooks `pending` again, 500 at a time, lowest id first, and wakes their inboxes. What is stored after the
 * beginning is not meant, and a row that fails again meanwhile is not taken twice. Broken off, it has done some.
 *
 * @throws InvalidArgumentException, IntegrationNotFound
 */
export async function replayWebhooks(framework: Framework, given: ReplayWebhooks = {}): Promise<ReplayedWebhooks> {
  const { db, tables, workflows, logger } = framework
  const { filter, limit } = await checked(framework, given)
  const highestId = await highestWebhookId(db, tables)
  const byIntegration = new Map<number, number>()
  let afterId = 0
  let left = limit
  for (let isOver = false; left > 0 && !isOver; ) {
    const size = Math.min(CHUNK_ROWS, left)
    const rows = await replayChunk(db, tables, filter, { afterId, highestId, limit: size })
    for (const { integrationId } of rows) byIntegration.set(integrationId, (byIntegration.get(integrationId) ?? 0) + 1)
    if (rows.length > 0) workflows.wakeInbox()
    afterId = rows.at(-1)?.id ?? afterId
    left -= rows.length
    isOver = rows.length < size
  }
  const integrations = [...byIntegration].map(([id, replayed]) => ({ id, replayed })).sort((a, b) => a.id - b.id)
  const replayed = limit - left
  logger.info({ event: 'webhook.replayed', webhooks: replayed, integrations: integrations.length }, 'webhooks replayed')
  const more = left === 0 && (await isMoreToReplay(db, tables, filter, { afterId, highestId }))
  return { replayed, integrations, more }
}

async function replayableWebhook(framework: Framework, id: number): Promise<WebhookDetail> {
  const webhook = await getWebhook(framework, id)
  const { status, payload, headers } = webhook
  if (payload === '' && Object.keys(headers).length === 0) throw new WebhookNotReplayable(id, status, true)
  if (status !== 'processed' && status !== 'failed') throw new WebhookNotReplayable(id, status)
  return webhook
}

/** A job of its own has it, or had it when we asked. */
const held = (id: number): WebhookNotReplayable => new WebhookNotReplayable(id, 'processing')

async function checked(
  { db, tables }: Framework,
  { limit = DEFAULT_LIMIT, status = 'failed', ...filter }: ReplayWebhooks,
): Promise<{ filter: ReplayFilter; limit: number }> {
  if (status !== 'failed' && status !== 'processed')
    throw new InvalidArgumentException('status', `processed and failed are allowed, ${String(status)} was given`)
  checkLimit(limit)
  checkFilter(filter)
  const { integration } = filter
  if (integration !== undefined && (await findIntegration(db, tables, integration)) === null)
    throw new IntegrationNotFound(integration)
  return { filter: { ...filter, status }, limit }
}
