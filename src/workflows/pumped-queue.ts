import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import { pumpClaimOf } from '../core/claim.ts'
import type { Pumped, PumpInput } from '../core/pump-jobs.ts'
import { pump } from './activity-options.ts'
import { moment, showing } from './current-details.ts'
import type { PumpedQueueInput, PumpedQueueState } from './messages.ts'
import { arrived, pumpCalls, pumpedQueueState } from './messages.ts'

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
/** A row that is due and was not claimed is held by somebody else at this moment. */
const SHORTEST_WAIT_MS = 1_000

/** What its pumps work off. */
export interface PumpedWork {
  readonly pump: {
    executeWithOptions(options: typeof pump, given: [PumpInput]): Promise<Pumped>
  }
  /** For people: `Webhooks`. */
  readonly what: string
  /** Who asks for the rows. */
  readonly command: string
}

interface OpenPump {
  readonly startedAtMs: number
  isLeaving: boolean
}

/**
 * Has pumps work off stored rows, one or more, for as long as there is something to do, and again when a row is due for which nothing
 * arrives. It runs nothing in its own task: whatever a worker does, its history stays one that replays.
 *
 * Rules: docs/behaviour/webhooks.md, "The inbox"; docs/behaviour/events.md, "The outbox".
 */
export async function pumpedQueue(
  { carried }: PumpedQueueInput,
  { pump: activity, what, command }: PumpedWork,
): Promise<PumpedQueueState> {
  const { runId } = workflowInfo()
  const pumps = new Map<string, OpenPump>()
  const total = { ended: carried?.ended ?? 0, processed: carried?.processed ?? 0, failed: carried?.failed ?? 0 }
  let opened = 0
  let hasArrived = true
  /** As the pumps that have worked beside each other said. */
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
  const working = (): OpenPump[] => [...pumps.values()].filter(({ isLeaving }) => !isLeaving)
  const mayOpen = (): boolean => {
    const { historyLength } = workflowInfo()
    const most = historyLength < MANY_EVENTS ? MAX_PUMPS : historyLength < MOST_EVENTS ? 1 : 0
    return failure === undefined && working().length < most
  }

  const open = (): void => {
    if (pumps.size === 0) nextDueAtMs = null
    opened += 1
    hasArrived = false
    const claim = pumpClaimOf(runId, opened)
    pumps.set(claim, { startedAtMs: Date.now(), isLeaving: false })
    tell()
    activity
      .executeWithOptions({ ...pump, summary: `pump ${opened}` }, [{ claim }])
      .then(
        ({ end, processed, failed, handedBack, nextDueInMs }) => {
          total.ended += 1
          total.processed += processed
          total.failed += failed
          // As a moment: pumps beside this one may go on for a while, and each may have seen what the others had not settled.
          if (nextDueInMs !== null)
            nextDueAtMs = Math.min(nextDueAtMs ?? Number.POSITIVE_INFINITY, Date.now() + nextDueInMs)
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

  /** Until a row is due, or something arrives. */
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
      if (pumps.size > 0 && mayOpen() && Date.now() - youngest > PROMISED_AFTER_MS) open()
    },
    { description: 'Rows wait: a pump looks for them. No input.' },
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
      // What arrived while the last pump ended is looked for by another one.
      await condition(() => pumps.size === 0)
    }
  } catch (error) {
    failure ??= error
  }
  // No pump works for it once it is over: deleting an integration counts on that.
  await CancellationScope.nonCancellable(() => condition(() => pumps.size === 0))
  if (failure !== undefined) throw failure
  return state()
}
