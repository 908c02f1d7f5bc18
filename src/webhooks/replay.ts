/** Running settled webhooks again: one at once, or many through the queue. Rule: docs/behaviour/webhook-replay.md. */

import { and, sql } from 'drizzle-orm'
import { bigints } from '../db/integrations-of.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, WebhookNotReplayable } from '../framework/errors.ts'
import type { ChangedRow, Meant, OnChangedWebhooks, ReplayPreview } from './bulk.ts'
import { changeMany, checkMany, previewMany } from './bulk.ts'
import type { WebhookDetail, WebhookFilter } from './list.ts'
import { getWebhook, selected } from './list.ts'
import { passTurnsBehind, turnBefore } from './order.ts'
import { isNotErased, oneMore } from './queries.ts'
import type { ProcessWebhookResult } from './webhook-jobs.ts'

export type { ReplayPreview }

export interface ReplayWebhooks extends WebhookFilter {
  /** Default `failed`. */
  readonly status?: 'processed' | 'failed' | undefined
  /** Lowest ids first; at least 1. Default 1,000. */
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
  /** The lowest and the highest id among them; null: none. */
  readonly span: readonly [number, number] | null
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
  if (result === 'already running') throw heldWebhookError(id)
  if (result.outcome !== 'not claimed') return result
  // It was moved on after we had looked at it.
  await replayableWebhook(framework, id)
  throw heldWebhookError(id)
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
    throw heldWebhookError(id)
  return { webhookId: id, integrationId, workflowId }
}

/** What {@link replayWebhooks} would do. @throws InvalidArgumentException, IntegrationNotFound */
export async function previewReplays(framework: Framework, given: ReplayWebhooks = {}): Promise<ReplayPreview> {
  return previewMany(framework, await meantBy(framework, given))
}

/**
 * Makes settled webhooks `pending` again, 500 at a time, lowest id first, and wakes the inbox. A webhook that is stored after the
 * beginning is not meant, and a row that fails again meanwhile is not taken twice. Broken off, it has replayed some.
 *
 * @throws InvalidArgumentException, IntegrationNotFound
 */
export async function replayWebhooks(
  framework: Framework,
  given: ReplayWebhooks = {},
  { onChanged }: OnChangedWebhooks = {},
): Promise<ReplayedWebhooks> {
  const { logger } = framework
  const meant = await meantBy(framework, given)
  const changed = await replayMeant(framework, meant, onChanged)
  const replayed = changed.count
  const integrations = changed.integrations.map(({ id, count }) => ({ id, replayed: count }))
  logger.info({ event: 'webhook.replayed', webhooks: replayed, integrations: integrations.length }, 'webhooks replayed')
  return { replayed, integrations, span: changed.span, more: replayed === meant.limit && (await changed.areMore()) }
}

/** Those of these webhooks that are failed still, and not erased. */
export async function replayableAmong({ db, tables }: Framework, ids: readonly number[]): Promise<ReadonlySet<number>> {
  const areMeant = and(...failedAmong(tables, ids))
  const rows = await db.select({ id: tables.webhooks.id }).from(tables.webhooks).where(areMeant)
  return new Set(rows.map(({ id }) => id))
}

/** Replays those among them that are so still. @param onRows takes the rows that wait again, as they do */
export async function replayAmong(
  framework: Framework,
  ids: readonly number[],
  onRows: (rows: readonly ChangedRow[]) => void,
): Promise<void> {
  const meant = { conditions: failedAmong(framework.tables, ids), limit: ids.length }
  const { count } = await replayMeant(framework, meant, onRows)
  framework.logger.info({ event: 'webhook.replayed', webhooks: count }, 'webhooks replayed')
}

function failedAmong(tables: Tables, ids: readonly number[]) {
  return [
    ...selected(tables, { status: 'failed' }),
    isNotErased(tables.webhooks),
    sql`${tables.webhooks.id} = any(${bigints(ids)})`,
  ]
}

function replayMeant(framework: Framework, meant: Meant, onRows: (rows: readonly ChangedRow[]) => void = () => {}) {
  const waiting = { status: 'pending', error: null, processedAt: null, dismissedAt: null, claim: null } as const
  // A row with an ordering key takes its place again, by its id.
  const keyTurn = sql`case when ordering_key is not null then false end`
  // Each is the beginning of a replay.
  const set = { ...waiting, keyTurn, replayAttempt: oneMore(framework.tables.webhooks) }
  return changeMany(framework, meant, set, async (rows) => {
    onRows(rows)
    await passTurnsBehind(framework, rows)
    framework.workflows.wakeInbox()
  })
}

async function replayableWebhook(framework: Framework, id: number): Promise<WebhookDetail> {
  const webhook = await getWebhook(framework, id)
  const { status, hasPayload } = webhook
  if (!hasPayload) throw new WebhookNotReplayable(id, status, { isErased: true })
  if (status !== 'processed' && status !== 'failed') throw new WebhookNotReplayable(id, status)
  const before = await turnBefore(framework, webhook)
  if (before !== null) throw new WebhookNotReplayable(id, status, { turnOf: before })
  return webhook
}

/** A job of its own has it, or had it when we asked. */
const heldWebhookError = (id: number): WebhookNotReplayable => new WebhookNotReplayable(id, 'processing')

async function meantBy(
  framework: Framework,
  { limit: given, status = 'failed', ...filter }: ReplayWebhooks,
): Promise<Meant> {
  if (status !== 'failed' && status !== 'processed')
    throw new InvalidArgumentException('status', `processed and failed are allowed, ${String(status)} was given`)
  const limit = await checkMany(framework, { ...filter, limit: given })
  const { tables } = framework
  return { limit, conditions: [...selected(tables, { ...filter, status }), isNotErased(tables.webhooks)] }
}
