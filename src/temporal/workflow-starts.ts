/**
 * What the Temporal UI shows of a workflow from its start on: a line in the head of its page, and below it what it does and how
 * to steer it. Ids, counts and provider identifiers only: a history keeps them. The server takes 400 bytes of the one and
 * 20,000 of the other (`limit.userMetadataSummarySize`, `limit.userMetadataDetailsSize`).
 *
 * What it is doing right now it says itself: workflows/temporal-ui.ts. Rule: docs/behaviour/workflows.md, "In the Temporal UI".
 */
import type { Config } from '../config/schema.ts'
import type { BackfillInput, SyncOf } from '../syncs/sync-jobs.ts'
import { taskQueue, WORKFLOW, workflowId } from '../workflows/ids.ts'

interface StartTexts {
  readonly staticSummary: string
  readonly staticDetails: string
}

function texts(staticSummary: string, ...details: readonly string[]): StartTexts {
  return { staticSummary, staticDetails: details.join('\n\n') }
}

const SEES = '*Current details* and the query `progress` say how far it is.'

export const startTexts = {
  webhookInbox: () =>
    texts(
      'Webhooks of all integrations',
      'Works off the stored webhooks. Each pending activity is a pump; its heartbeat details say what it holds. Ends two seconds after the last arrival; the next one starts it again.',
      'It may be terminated: rows stay, and the sweep wakes it within a minute. Rows: `integrations list-webhooks`.',
    ),
  eventOutbox: () =>
    texts(
      'Durable events and notifications',
      'Tells queued listeners and notification targets of durable events. Each pending activity is a pump; its heartbeat details say what it holds. It sleeps until the next try is due, and ends when none is; the next event starts it again.',
      'It may be terminated: rows stay, and the sweep wakes it within a minute. Rows: `integrations notifications`.',
    ),
  incident: (integrationId: number) =>
    texts(
      `Incidents of integration ${integrationId}`,
      'Follows the newest incident of one integration: looks when it changes, and once a day. Ends when it is closed.',
      `The row is the record: \`integrations incidents --integration ${integrationId}\`, \`integrations health ${integrationId}\`.`,
    ),
  webhookSubscription: (integrationId: number, provider: string) =>
    texts(
      `Webhook subscription of integration ${integrationId} (${provider})`,
      'Registers the webhook at the provider, renews it, puts right what changed there, and removes it when the integration is switched off. Ends when there is nothing to look after.',
      `The row is the record: \`integrations check-webhooks ${integrationId}\`. It may be terminated: a dispatch starts it again within two minutes. Signal \`look\`: looks now.`,
    ),
  syncIntegration: ({ integrationId, stream }: SyncOf, provider: string) =>
    texts(
      `Sync of ${stream == null ? '' : `${stream} of `}integration ${integrationId} (${provider})`,
      'One run: open, list, process the items, finalise, announce. Its id keeps a second one from starting.',
      'Signals: `pause` takes nothing new in, `resume` goes on, `cancel` ends the run after what it has under way. `retryItem` `{"itemId": …}`, `skipItem` `{"itemId": …}`.',
      `${SEES} Items that failed: \`integrations list-failed-items --integration ${integrationId}\`.`,
    ),
  backfillSync: ({ integrationId, stream, from, to }: BackfillInput, provider: string) =>
    texts(
      `Backfill of ${stream === undefined ? '' : `${stream} of `}integration ${integrationId} (${provider}), ${from} to ${to}`,
      'Lists a window of the past in slices of a day, in ascending order, and processes their items. Request cancellation to end it; the same window may be started again.',
      SEES,
    ),
  processSyncItem: (itemId: number, provider: string) =>
    texts(
      `Retry of sync item ${itemId} (${provider})`,
      'Tries one failed item again. Cancelled between two tries it leaves its item waiting; the item’s run takes it up.',
    ),
  processWebhook: (webhookId: number, isReplay: boolean) =>
    texts(
      `${isReplay ? 'Replay' : 'Recovery'} of webhook ${webhookId}`,
      `Handles one stored webhook. What became of it: \`integrations show-webhook ${webhookId}\`.`,
    ),
  dispatchSyncs: () =>
    texts('Starts the syncs that are due', 'Starts a run of each integration that is due, and notes which are late.'),
  evaluateFailures: () =>
    texts(
      'Evaluates failure rates',
      'Notes each integration whose failure rate rises above the threshold or falls below.',
    ),
  recoverWebhooks: () =>
    texts(
      'Takes up stranded webhooks',
      'Takes up webhooks whose worker died, and tries failed ones again when they are due.',
    ),
  refreshTokens: (integrationId?: number) =>
    texts(
      integrationId === undefined ? 'Refreshes OAuth tokens' : `Refreshes the tokens of integration ${integrationId}`,
      'Refreshes what would expire. An integration that has to be authorized again: `integrations oauth-link ID`.',
    ),
  reconcileWebhooks: (integrationId?: number) =>
    texts(
      integrationId === undefined
        ? 'Asks providers for webhooks that never came'
        : `Asks for webhooks of integration ${integrationId} that never came`,
      'Stores what the provider has sent and no request delivered.',
    ),
  prune: () => texts('Prunes old rows', 'Deletes what is kept no longer, step by step (the keys `pruning.*`).'),
} as const

export type SharedName =
  | 'webhookInbox'
  | 'eventOutbox'
  | 'dispatchSyncs'
  | 'evaluateFailures'
  | 'recoverWebhooks'
  | 'reconcileWebhooks'
  | 'refreshTokens'
  | 'prune'

/** The webhooks' own; the others run on the syncs' task queue. */
const WEBHOOK_QUEUE: ReadonlySet<SharedName> = new Set(['webhookInbox', 'recoverWebhooks', 'reconcileWebhooks'])

/**
 * How a workflow that works for all integrations is started: by a Schedule, by a person, by a wake-up.
 *
 * @param integrationId for a start by a person that works for this integration only
 */
export function sharedStart(config: Config, name: SharedName, integrationId?: number) {
  const queue = WEBHOOK_QUEUE.has(name) ? config.webhook.queue : config.sync.queue
  return {
    workflow: WORKFLOW[name],
    workflowId: workflowId[name](config.cache_prefix, integrationId),
    taskQueue: taskQueue(config.cache_prefix, queue),
    texts: startTexts[name](integrationId),
  }
}

/** Each once, prefix included: a worker process runs a Worker for each. */
export function taskQueuesOf({ cache_prefix, webhook, sync }: Config): string[] {
  const names = [webhook.queue, sync.queue, ...Object.values(sync.queues)]
  if (sync.item_queue !== null) names.push(sync.item_queue)
  return [...new Set(names)].map((name) => taskQueue(cache_prefix, name))
}
