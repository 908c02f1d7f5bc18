import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  log,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { pumpClaimOf } from '../core/claim.ts'
import { pump } from './activity-options.ts'
import { showing } from './current-details.ts'
import type { WebhookInboxInput, WebhookInboxState } from './messages.ts'
import { arrived, pumpCalls, webhookInboxState } from './messages.ts'

const MAX_PUMPS = 4
/**
 * While a pump works it has promised to look again, and no process signals. A signal beside one that has had this time to promise says
 * that it does not: its worker has died.
 */
const PROMISED_AFTER_MS = 1_500
/** From one of them on a new history begins when no pump runs; from this many events on no more than one works until then. */
const MANY_PUMPS = 100
const MANY_EVENTS = 10_000
/** A server ends a workflow at 51,200 events (`limit.historyCount.error`): before that it waits until no pump runs. */
const MOST_EVENTS = 40_000

const { pumpWebhooks } = proxyActivities<Activities>(pump)

interface OpenPump {
  readonly startedAtMs: number
  isLeaving: boolean
}

/**
 * Works off the stored webhooks of all integrations: it has pumps do so, one or more, for as long as there is something to do.
 *
 * Durable promise: a row that is stored and signalled is claimed, handled and settled, whichever worker dies. It runs nothing in its
 * own task and waits for no timer: whatever a worker does, its history stays one that replays. Its id allows one per deployment.
 *
 * Rule: docs/behaviour/webhooks.md, "The inbox".
 */
export async function webhookInbox({ carried }: WebhookInboxInput = {}): Promise<WebhookInboxState> {
  const { runId } = workflowInfo()
  const pumps = new Map<string, OpenPump>()
  const total = { ended: carried?.ended ?? 0, processed: carried?.processed ?? 0, failed: carried?.failed ?? 0 }
  let opened = 0
  let hasArrived = true
  let failure: unknown

  const state = (): WebhookInboxState => ({
    pumps: [...pumps].map(([claim, { startedAtMs, isLeaving }]) => ({
      claim,
      startedAt: new Date(startedAtMs).toISOString(),
      isLeaving,
    })),
    ...total,
  })
  const tell = (): void =>
    showing(
      `Webhooks: ${pumps.size} ${pumps.size === 1 ? 'pump' : 'pumps'} at work`,
      { Processed: total.processed, Failed: total.failed, 'Pumps that have ended': total.ended },
      'Each pending activity below is a pump; its heartbeat details say what it holds.',
      'Rows: `integrations list-webhooks`. Terminating this loses nothing.',
    )
  const working = (): OpenPump[] => [...pumps.values()].filter(({ isLeaving }) => !isLeaving)
  const mayOpen = (): boolean => {
    const { historyLength } = workflowInfo()
    const most = historyLength < MANY_EVENTS ? MAX_PUMPS : historyLength < MOST_EVENTS ? 1 : 0
    return failure === undefined && working().length < most
  }

  const open = (): void => {
    opened += 1
    hasArrived = false
    const claim = pumpClaimOf(runId, opened)
    pumps.set(claim, { startedAtMs: Date.now(), isLeaving: false })
    tell()
    pumpWebhooks
      .executeWithOptions({ ...pump, summary: `pump ${opened}` }, [{ claim }])
      .then(
        ({ end, processed, failed, handedBack }) => {
          total.ended += 1
          total.processed += processed
          total.failed += failed
          // Its worker stopped before it could ask for another one, or rows went back that the others may not have seen.
          if (handedBack > 0 || (end === 'stopped' && pumps.get(claim)?.isLeaving === false)) hasArrived = true
        },
        (error: unknown) => {
          failure ??= error
        },
      )
      .finally(() => {
        pumps.delete(claim)
        tell()
      })
  }

  setHandler(
    arrived,
    () => {
      hasArrived = true
      const youngest = Math.max(...working().map(({ startedAtMs }) => startedAtMs))
      if (pumps.size > 0 && mayOpen() && Date.now() - youngest > PROMISED_AFTER_MS) open()
    },
    { description: 'Webhooks wait: a pump looks for them. No input.' },
  )
  setHandler(
    pumpCalls,
    ({ claim, needs }) => {
      const caller = pumps.get(claim)
      if (needs === 'successor' && caller !== undefined) caller.isLeaving = true
      hasArrived = true
      if (mayOpen()) open()
    },
    { description: 'A pump asks for another one. Sent by pumps.' },
  )
  setHandler(webhookInboxState, state, {
    description: 'Its pumps, and how many webhooks those that ended have handled.',
  })

  tell()
  try {
    while (failure === undefined) {
      if (pumps.size === 0) {
        if (!hasArrived) break
        if (opened >= MANY_PUMPS || workflowInfo().historyLength >= MANY_EVENTS) {
          await condition(allHandlersFinished)
          await continueAsNew<typeof webhookInbox>({ carried: state() })
        }
        open()
      }
      // What arrived while the last pump ended is looked for by another one.
      await condition(() => pumps.size === 0)
    }
  } catch (error) {
    failure ??= error
  }
  // No pump works for it once it is over: deleting an integration counts on that.
  await CancellationScope.nonCancellable(() => condition(() => pumps.size === 0))
  if (failure !== undefined) throw failure
  const { processed, failed } = total
  log.info('inbox is empty', { event: 'inbox.emptied', processed, failed })
  return state()
}
