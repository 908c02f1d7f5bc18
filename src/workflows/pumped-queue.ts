/**
 * The inbox of webhooks and the outbox of durable events. Both are a queue of stored rows that pumps work off.
 *
 * Rules: docs/behaviour/webhooks.md, "The inbox"; docs/behaviour/events.md, "The outbox".
 */
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
import type { Pumped, PumpInput } from '../claims/pump-jobs.ts'
import { pumpClaimOf } from '../claims/rules.ts'
import { single } from './activity-options.ts'
import { lacksInput } from './given-input.ts'
import type { PumpedQueueInput, PumpedQueueState } from './messages.ts'
import { arrived, pumpCalls, pumpedQueueState } from './messages.ts'
import { moment, showing } from './temporal-ui.ts'

const { pumpEvents, pumpWebhooks } = proxyActivities<Activities>(single)

/**
 * Handles the stored webhooks of all integrations.
 *
 * Durable promise: a row that is stored and signalled is claimed, handled and settled, whichever worker dies. Its id allows
 * one inbox per deployment. It ends with its last pump, and waits for no timer.
 */
export async function webhookInbox(input: PumpedQueueInput = {}): Promise<PumpedQueueState> {
  const work = { pump: pumpWebhooks, what: 'Webhooks', command: 'integrations list-webhooks' }
  const state = await pumpedQueue(input, work)
  const { processed, failed } = state
  log.info('inbox is empty', { event: 'inbox.emptied', processed, failed })
  return state
}

/**
 * Delivers the durable events of all integrations.
 *
 * Durable promise: an event that is stored and signalled is delivered to each of its consumers or given up, whichever worker
 * dies. While an event waits for another try and no pump works, the outbox sleeps until that try is due. Its id allows one
 * outbox per deployment. It ends with its last pump when no event is left.
 */
export async function eventOutbox(input: PumpedQueueInput = {}): Promise<PumpedQueueState> {
  const work = { pump: pumpEvents, what: 'Durable events', command: 'integrations notifications' }
  const state = await pumpedQueue(input, work)
  const { processed, failed } = state
  log.info('outbox is empty', { event: 'outbox.emptied', processed, failed })
  return state
}

const MAX_PUMPS = 4
/**
 * A working pump has promised to look again, so no process signals. A signal that comes later than this after the pump's
 * start means that the pump promises nothing: its worker has died.
 */
const PROMISED_AFTER_MS = 1_500
/**
 * From either number on, a new history begins once no pump runs. From this number of events on, one pump at most works
 * until then.
 */
const MANY_PUMPS = 100
const MANY_EVENTS = 10_000
/** A server ends a workflow at 51,200 events (`limit.historyCount.error`): from here on no pump opens in this history. */
const MOST_EVENTS = 40_000
/** A row that is due and was not claimed is held by another claim at this moment. */
const SHORTEST_WAIT_MS = 1_000

interface PumpedWork {
  readonly pump: {
    executeWithOptions(options: typeof single, given: [PumpInput]): Promise<Pumped>
  }
  /** For people: `Webhooks`. */
  readonly what: string
  /** The command that lists the rows. */
  readonly command: string
}

interface OpenPump {
  readonly startedAtMs: number
  /** It has asked for a successor. */
  isLeaving: boolean
  /** It promised nothing when rows came: its worker is dead, or it still waits for a worker. */
  isSilent: boolean
}

/**
 * Keeps one or more pumps open while there are rows to handle, and opens one again when a row becomes due without a signal.
 * It runs no local activity: whatever a worker does, the history stays one that replays.
 */
async function pumpedQueue(
  { carried }: PumpedQueueInput,
  { pump: activity, what, command }: PumpedWork,
): Promise<PumpedQueueState> {
  const { runId } = workflowInfo()
  const pumps = new Map<string, OpenPump>()
  const total = { ended: carried?.ended ?? 0, processed: carried?.processed ?? 0, failed: carried?.failed ?? 0 }
  let opened = 0
  let hasArrived = true
  /** The earliest moment that one of the pumps open together has reported. */
  let nextDueAtMs: number | null = null
  let failure: unknown

  const state = (): PumpedQueueState => ({
    pumps: [...pumps].map(([claim, { startedAtMs, isLeaving }]) => ({
      claim,
      startedAt: new Date(startedAtMs).toISOString(),
      isLeaving,
    })),
    ...total,
    nextDueAt: pumps.size > 0 || nextDueAtMs === null ? null : new Date(nextDueAtMs).toISOString(),
  })
  const tell = (): void =>
    showing(
      `${what}: ${pumps.size} ${pumps.size === 1 ? 'pump' : 'pumps'} at work`,
      {
        Processed: total.processed,
        Failed: total.failed,
        'Pumps that have ended': total.ended,
        'Next is due': pumps.size > 0 || nextDueAtMs === null ? null : moment(nextDueAtMs),
      },
      'Each pending activity below is a pump; its heartbeat details say what it holds.',
      `Rows: \`${command}\`. Terminating this loses nothing.`,
    )
  const staying = (): OpenPump[] => [...pumps.values()].filter(({ isLeaving }) => !isLeaving)
  const working = (): OpenPump[] => staying().filter(({ isSilent }) => !isSilent)
  const mayOpen = (): boolean => {
    const { historyLength } = workflowInfo()
    const most = historyLength < MANY_EVENTS ? MAX_PUMPS : historyLength < MOST_EVENTS ? 1 : 0
    // Silent ones may all come to work again: then there are twice as many for a while.
    return failure === undefined && working().length < most && staying().length < 2 * most
  }

  const open = (): void => {
    if (pumps.size === 0) nextDueAtMs = null
    opened += 1
    hasArrived = false
    const claim = pumpClaimOf(runId, opened)
    pumps.set(claim, { startedAtMs: Date.now(), isLeaving: false, isSilent: false })
    tell()
    activity
      .executeWithOptions({ ...single, summary: `pump ${opened}` }, [{ claim }])
      .then(
        ({ end, processed, failed, handedBack, nextDueInMs }) => {
          if (end === 'declined') return openAgain(claim)
          total.ended += 1
          total.processed += processed
          total.failed += failed
          // Kept as a moment: other pumps may work on for a while. Each may have seen rows that the others had not settled.
          if (nextDueInMs !== null)
            nextDueAtMs = Math.min(nextDueAtMs ?? Number.POSITIVE_INFINITY, Date.now() + nextDueInMs)
          // Its worker stopped before it could ask for a successor, or it handed back rows that the others may not have seen.
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

  /** In place of a pump that a stopping worker has declined. The worker that asks next for work is mostly another one. */
  const openAgain = (claim: string): void => {
    pumps.delete(claim)
    hasArrived = true
    if (mayOpen()) open()
  }

  /** Waits until a row is due, or something arrives. */
  const untilDue = async (dueAtMs: number): Promise<void> => {
    await condition(() => hasArrived || pumps.size > 0, Math.max(dueAtMs - Date.now(), SHORTEST_WAIT_MS), {
      summary: 'the next try of what failed is due then',
    })
    if (pumps.size === 0) hasArrived = true
  }

  setHandler(
    arrived,
    () => {
      hasArrived = true
      const youngest = Math.max(...working().map(({ startedAtMs }) => startedAtMs))
      if (pumps.size === 0 || Date.now() - youngest <= PROMISED_AFTER_MS) return
      // No pump promises to look: their workers have died. Temporal misses them later, and a pump that it tries again leaves.
      for (const silent of working()) silent.isSilent = true
      if (mayOpen()) open()
    },
    { description: 'Rows wait: a pump looks for them. No input.' },
  )
  setHandler(
    pumpCalls,
    (call) => {
      if (lacksInput(pumpCalls.name, call)) return
      const { claim, needs } = call
      const caller = pumps.get(claim)
      if (needs === 'successor' && caller !== undefined) caller.isLeaving = true
      hasArrived = true
      if (mayOpen()) open()
    },
    { description: 'A pump asks for another one. Sent by pumps.' },
  )
  setHandler(pumpedQueueState, state, {
    description: 'Its pumps, how many rows those that ended have handled, and when the next row is due.',
  })

  tell()
  try {
    while (failure === undefined) {
      if (pumps.size === 0 && !hasArrived && nextDueAtMs !== null) await untilDue(nextDueAtMs)
      if (pumps.size === 0) {
        if (!hasArrived) break
        if (opened >= MANY_PUMPS || workflowInfo().historyLength >= MANY_EVENTS) {
          await condition(allHandlersFinished)
          await continueAsNew<(input: PumpedQueueInput) => Promise<PumpedQueueState>>({ carried: state() })
        }
        open()
      }
      // Another pump looks for what arrived while the last one ended.
      await condition(() => pumps.size === 0)
    }
  } catch (error) {
    failure ??= error
  }
  // No pump may outlive its workflow: deleting an integration counts on that.
  await CancellationScope.nonCancellable(() => condition(() => pumps.size === 0))
  if (failure !== undefined) throw failure
  return state()
}
