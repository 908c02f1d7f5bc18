import {
  allHandlersFinished,
  condition,
  continueAsNew,
  log,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { EventBatch, EventBatchResult } from '../activities/events.ts'
import type { Activities } from '../activities/index.ts'
import { claimOf } from '../core/claim.ts'
import { batch } from './activity-options.ts'
import { moment, showing } from './current-details.ts'
import type { OutboxInput, OutboxState } from './messages.ts'
import { arrived, outboxState } from './messages.ts'

/** What arrives beside a slow lane. */
const FEW_ROWS = 20
const BATCH_ROWS = 200
const MAX_LANES = 4
/** An outbox without work ends after this time; the next signal starts it again. */
const IDLE_TIMEOUT_MS = 5 * 60_000
/** Rows that are due and were not claimed are held by somebody else at this moment. */
const SHORTEST_WAIT_MS = 1_000
/** Keeps a history short of 5,000 events: a batch costs some six, and with a signal and a wait of its own eleven. */
const MAX_BATCHES = 400

const { deliverEvents } = proxyActivities<Activities>(batch)

/**
 * Delivers durable events: many of them in lanes beside each other, until none is left.
 *
 * Durable promise: an event that is stored and signalled is delivered to each of its consumers or given up, whichever
 * worker dies. A listener or target that is slow holds up its own lane only: events that arrive meanwhile are taken by
 * another one. While an event waits for another try it sleeps until that is due. Its id allows one outbox per deployment.
 *
 * It ends when the last claim was empty, no event waits for a time of its own, and nothing arrived since that claim began;
 * continue-as-new bounds its history. Rule: docs/behaviour/events.md, "Durable events".
 */
export async function eventOutbox({ carried = EMPTY }: OutboxInput = {}): Promise<OutboxState> {
  let state = carried
  let batches = 0
  let hasArrived = true
  let lastClaimed = 0
  let nextDueAtMs: number | null = null
  const onArrival = (): void => {
    hasArrived = true
  }
  setHandler(arrived, onArrival, { description: 'Rows wait: it looks for them. No input.' })
  setHandler(outboxState, () => state, {
    description: 'Whether it waits or works, its lanes, and how many rows it has worked off.',
  })

  const next = (limit: number): EventBatch => {
    batches += 1
    return { limit, claim: claimOf(workflowInfo().runId, batches) }
  }
  const tell = (): void => {
    const { phase, lanes, processed, failed, batches: count, lastBatchAt } = state
    const facts = {
      Processed: processed,
      Failed: failed,
      Batches: count,
      'Lanes at work': lanes,
      'Slowest handler': `${state.slowestMs} ms`,
      'Last batch': lastBatchAt === null ? 'none yet' : moment(Date.parse(lastBatchAt)),
      'Next is due': nextDueAtMs === null ? null : moment(nextDueAtMs),
    }
    showing(
      `Durable events: ${phase === 'waiting' ? 'waiting for the next one' : 'at work'}`,
      facts,
      'Rows: `integrations notifications`. Terminating this loses nothing.',
    )
  }
  const note = (taken: EventBatchResult): void => {
    lastClaimed = taken.claimed
    // As a moment: lanes beside this one may run on for a while.
    if (taken.nextDueInMs !== null) nextDueAtMs = earlier(nextDueAtMs, Date.now() + taken.nextDueInMs)
    const isEmpty = taken.processed + taken.failed === 0
    state = {
      ...state,
      batches: state.batches + 1,
      processed: state.processed + taken.processed,
      failed: state.failed + taken.failed,
      // An empty batch tells nothing about the handlers.
      slowestMs: isEmpty ? state.slowestMs : taken.slowestMs,
      lastBatchAt: new Date().toISOString(),
    }
    tell()
  }

  // Signals make a history long, too, while slow batches run.
  const mustContinueAsNew = (): boolean => batches >= MAX_BATCHES || workflowInfo().continueAsNewSuggested

  /** One batch after the other while they come back full; a full one calls for another lane. */
  const lane = async (firstRows = BATCH_ROWS): Promise<void> => {
    state = { ...state, lanes: state.lanes + 1 }
    const helpers: Promise<void>[] = []
    for (let rows = firstRows; ; rows = BATCH_ROWS) {
      const taken = await deliverEvents.executeWithOptions({ ...batch, summary: `up to ${rows} events` }, [next(rows)])
      note(taken)
      if (taken.claimed < rows || mustContinueAsNew()) break
      if (state.lanes < MAX_LANES) helpers.push(lane())
    }
    await Promise.all(helpers)
    state = { ...state, lanes: state.lanes - 1 }
  }

  /** Beside a lane that is slow, others for what arrives meanwhile: few rows each, so that old work does not fill them. */
  const lanesForArrivals = async (): Promise<void> => {
    const running: Promise<void>[] = []
    let hasFailed = false
    const open = (rows: number): void => {
      const opened = lane(rows)
      opened.catch(() => {
        hasFailed = true
      })
      running.push(opened)
    }
    const hasEnded = (): boolean => hasFailed || state.lanes === 0
    const mayOpen = (): boolean => hasArrived && state.lanes < MAX_LANES && !mustContinueAsNew()
    open(BATCH_ROWS)
    try {
      while (!hasEnded()) {
        await condition(() => hasEnded() || mayOpen())
        if (hasEnded()) break
        hasArrived = false
        open(FEW_ROWS)
      }
    } finally {
      // Who cancels it counts on it that nothing is under way once it has ended.
      await Promise.allSettled(running)
    }
    await Promise.all(running)
  }

  for (;;) {
    // From here on a signal may tell of a row that the coming claim does not see.
    hasArrived = false
    nextDueAtMs = null
    state = { ...state, phase: 'batches' }
    await lanesForArrivals()
    if (mustContinueAsNew()) {
      await condition(allHandlersFinished)
      await continueAsNew<typeof eventOutbox>({ carried: { ...state, phase: 'waiting' } })
    }
    if (hasArrived) continue
    state = { ...state, phase: 'waiting' }
    tell()
    const isWoken = await condition(() => hasArrived, waitMs(nextDueAtMs), {
      summary:
        nextDueAtMs === null ? 'ends when nothing arrives until then' : 'the next try of what failed is due then',
    })
    // After a claim that took something comes one more look.
    if (!isWoken && lastClaimed === 0 && nextDueAtMs === null) break
  }
  log.info('outbox is empty', {
    event: 'outbox.emptied',
    processed: state.processed,
    failed: state.failed,
  })
  return state
}

function waitMs(nextDueAtMs: number | null): number {
  return nextDueAtMs === null ? IDLE_TIMEOUT_MS : Math.max(nextDueAtMs - Date.now(), SHORTEST_WAIT_MS)
}

/** Of batches beside each other, each may have seen what the others had not settled yet. */
function earlier(a: number | null, b: number): number {
  return a === null ? b : Math.min(a, b)
}

const EMPTY: OutboxState = {
  phase: 'waiting',
  lanes: 0,
  batches: 0,
  processed: 0,
  failed: 0,
  slowestMs: 0,
  lastBatchAt: null,
}
