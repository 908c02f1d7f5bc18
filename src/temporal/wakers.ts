/**
 * Wakes what works off rows: the pumps of the inbox and the outbox, and the workflows that follow one integration's incident or
 * webhook subscription. Each wake-up is a signal with start. Rule: docs/behaviour/webhook-recovery.md, "Wake-ups".
 */
import type { Client, WorkflowSignalWithStartOptions } from '@temporalio/client'
import type { PumpedQueue } from '../claims/pump-jobs.ts'
import { EVENT_OUTBOX, WEBHOOK_INBOX } from '../claims/pump-jobs.ts'
import type { Config } from '../config/schema.ts'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import type { FollowIncidentInput } from '../incidents/incident-jobs.ts'
import type { Metrics } from '../observability/metrics.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import type { KeepSubscriptionInput } from '../subscriptions/subscription-jobs.ts'
import { SIGNAL, taskQueue, WORKFLOW, workflowId } from '../workflows/ids.ts'
import type { PumpedQueueInput } from '../workflows/messages.ts'
import type { WorksFor } from './label-rules.ts'
import { withAnswerLimit } from './questions.ts'
import type { StartLabels } from './search-attributes.ts'
import { withSearchAttributes } from './search-attributes.ts'
import { WakeUps } from './wake-ups.ts'
import { sharedStart, startTexts } from './workflow-starts.ts'

/** How long a wake-up that is under way at the end is waited for. */
const LAST_WAKE_MS = 2_000
const PUMPED = { [WEBHOOK_INBOX]: 'webhookInbox', [EVENT_OUTBOX]: 'eventOutbox' } as const

interface WakerParts {
  readonly client: () => Client
  readonly config: Config
  readonly logger: Logger
  readonly metrics: Pick<Metrics, 'wakeUpFailed'>
  /** For log lines; never rejects. */
  readonly providerOf: (integrationId: number) => Promise<string>
  readonly worksFor: (integrationId: number) => Promise<WorksFor>
}

export function wakersOf(parts: WakerParts) {
  const { logger } = parts
  const inbox = pumpWakeUps(parts, WEBHOOK_INBOX, (waitMs, error) =>
    logger.warn(
      { event: 'inbox.wake_failed', retry_in_ms: waitMs, error },
      'the inbox could not be woken; the rows are stored, it is tried again',
    ),
  )
  const outbox = pumpWakeUps(parts, EVENT_OUTBOX, (waitMs, error) =>
    logger.warn(
      { event: 'outbox.wake_failed', retry_in_ms: waitMs, error },
      'the outbox could not be woken; the rows are stored, it is tried again',
    ),
  )
  const subscriptions = subscriptionWakeUps(parts)
  const incidents = {
    escalate: incidentWakeUps(parts, SIGNAL.escalate),
    recovered: incidentWakeUps(parts, SIGNAL.recovered),
  }
  const all = [inbox, outbox, subscriptions, incidents.escalate, incidents.recovered]
  const stop = async (): Promise<void> => {
    await Promise.all(all.map((wakeUps) => wakeUps.stop(LAST_WAKE_MS)))
  }
  return { inbox, outbox, subscriptions, incidents, stop }
}

/** Signals the workflow of the pumps, and starts it if it does not run. */
export function signalPumped(
  client: Client,
  config: Config,
  queue: PumpedQueue,
  signal: string,
  signalArgs: unknown[],
): Promise<unknown> {
  const { workflow, texts, ...start } = sharedStart(config, PUMPED[queue])
  const args = [{} satisfies PumpedQueueInput]
  return client.workflow.signalWithStart(workflow, { ...start, args, ...texts, signal, signalArgs })
}

function pumpWakeUps(
  { client, config, metrics }: WakerParts,
  queue: PumpedQueue,
  warn: (retryInMs: number, error: string) => void,
): WakeUps {
  return new WakeUps({
    send(_, aborted) {
      const asked = client()
      return asked.withAbortSignal(aborted, () =>
        withAnswerLimit(asked, () => signalPumped(asked, config, queue, SIGNAL.arrived, [])),
      )
    },
    onFailure(_, error, waitMs) {
      metrics.wakeUpFailed()
      warn(waitMs, errorLine(error, 300))
    },
  })
}

function incidentWakeUps(parts: WakerParts, signal: string): WakeUps {
  const { config, logger } = parts
  return follower(
    parts,
    WORKFLOW.incident,
    ({ integrationId }) => ({
      workflowId: workflowId.incident(config.cache_prefix, integrationId),
      taskQueue: taskQueue(config.cache_prefix, config.sync.queue),
      args: [{ integrationId } satisfies FollowIncidentInput],
      signal,
      ...startTexts.incident(integrationId),
    }),
    ({ integration, provider }, fields) =>
      logger.warn(
        { event: 'incident.wake_failed', integration, provider, ...fields },
        'the workflow of an incident could not be signalled; the row is stored, it is tried again',
      ),
  )
}

function subscriptionWakeUps(parts: WakerParts): WakeUps {
  const { config, logger } = parts
  return follower(
    parts,
    WORKFLOW.webhookSubscription,
    ({ integrationId, provider }) => ({
      workflowId: workflowId.webhookSubscription(config.cache_prefix, integrationId),
      taskQueue: taskQueue(config.cache_prefix, config.webhook.queue),
      args: [{ integrationId } satisfies KeepSubscriptionInput],
      signal: SIGNAL.look,
      ...startTexts.webhookSubscription(integrationId, provider ?? UNKNOWN_PROVIDER),
    }),
    ({ integration, provider }, fields) =>
      logger.warn(
        { event: 'webhook.subscription_wake_failed', integration, provider, ...fields },
        'the workflow of a webhook subscription could not be signalled; the row is stored, it is tried again',
      ),
  )
}

/** Asks the workflow of an integration to look at its row. */
function follower(
  { client, metrics, providerOf, worksFor }: WakerParts,
  workflow: string,
  startOf: (works: WorksFor) => WorkflowSignalWithStartOptions,
  warn: (whose: { integration: number; provider: string }, fields: object) => void,
): WakeUps {
  return new WakeUps({
    async send(integrationId, aborted) {
      const asked = client()
      const works = await worksFor(integrationId)
      const send = (labels: StartLabels) => asked.workflow.signalWithStart(workflow, { ...startOf(works), ...labels })
      return asked.withAbortSignal(aborted, () =>
        withAnswerLimit(asked, () => withSearchAttributes(asked, works, send)),
      )
    },
    onFailure(integrationId, error, waitMs) {
      metrics.wakeUpFailed()
      const fields = { retry_in_ms: waitMs, error: errorLine(error, 300) }
      void providerOf(integrationId).then((provider) => warn({ integration: integrationId, provider }, fields))
    },
  })
}
