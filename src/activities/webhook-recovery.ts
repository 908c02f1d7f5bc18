import { heldBy } from '../claims/claimed-rows.ts'
import { PumpedWork } from '../claims/claimed-work.ts'
import { Ending } from '../claims/ending.ts'
import { serving } from '../claims/serving.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { patiently } from '../framework/waiting.ts'
import type { IntegrationContext } from '../integrations/integration-contexts.ts'
import { withDeliveryHeaders } from '../webhooks/parts.ts'
import type { ClaimableFrom } from '../webhooks/queries.ts'
import { claimWebhook, webhookState } from '../webhooks/queries.ts'
import { recoverWebhooks } from '../webhooks/recovery.ts'
import type { ProcessWebhookInput, ProcessWebhookResult, RecoverWebhooksResult } from '../webhooks/webhook-jobs.ts'
import type { EndedWebhook, WebhookQueue } from '../webhooks/webhook-queue.ts'
import { webhookQueue } from '../webhooks/webhook-queue.ts'
import { notItsTurn } from './activity-failures.ts'
import { temporalSurroundings } from './surroundings.ts'

export interface ProcessOneWebhook extends ProcessWebhookInput {
  /** Made by the workflow, so that a second try of this very activity carries the same one. */
  readonly claim: string
  /** Of a replay: as the row was before it. A second try tells by it whether the first one has settled the row. */
  readonly attemptsBefore?: number
}

export interface WebhookState {
  readonly status: WebhookRow['status']
  readonly attempts: number
}

export function webhookRecoveryActivities(framework: Framework, surroundings = temporalSurroundings) {
  const { db, tables, logger } = framework
  const suspects = new Suspects()

  return {
    /** May be run twice: what the first try has taken up is not due any more, and the second goes on behind it. */
    async recoverStuckWebhooks(): Promise<RecoverWebhooksResult> {
      return recoverWebhooks(framework, surroundings().cancellationSignal)
    },

    /** Null: it is gone. Looks only. */
    async readWebhookState({ webhookId }: { webhookId: number }): Promise<WebhookState | null> {
      return webhookState(db, tables, webhookId)
    },

    /**
     * Claims one webhook, runs its handler and settles it.
     *
     * May be run twice: a second try takes up the row that the first one still holds, and claims none that the first one
     * has settled.
     *
     * @throws when the row went back to `pending`, since the worker stopped before the handler ended: to be tried by another one
     */
    async processOneWebhook(input: ProcessOneWebhook): Promise<ProcessWebhookResult> {
      const { webhookId } = input
      const { cancellationSignal, graceIsOver, info } = surroundings()
      const isRetry = info.attempt > 1
      // Two tries of it may come to a worker at once. And Temporal may have heard nothing of one whose handler still runs.
      const stopServing = await serving(framework, input.claim)
      if (stopServing === null) throw notItsTurn('an earlier try of it still runs', ASK_AGAIN)
      // As a pump: a cancellation alone gives no handler up, and drops nothing that it gave.
      const ending = new Ending(graceIsOver ?? cancellationSignal)
      const queue = webhookQueue(framework)
      const work = new PumpedWork({ db, logger, signal: ending.begun }, queue, input.claim)
      try {
        const before = await webhookState(db, tables, webhookId)
        const isHeld = isRetry && before?.status === 'processing'
        const losses = (before?.lostWorkers ?? 0) + (isHeld || input.stuckAttempts !== undefined ? 1 : 0)
        const release = suspects.enter(losses)
        try {
          const row = await nextRow({ work, queue }, input, isRetry, before)
          if (row !== null) await runOne(work, row, ending)
        } finally {
          release()
        }
      } finally {
        ending.release()
        await stopServing()
      }
      if (work.tally.handedBack > 0)
        throw new Error(`webhook ${webhookId} went back to pending before its handler ended`)
      const state = await webhookState(db, tables, webhookId)
      const ended = work.tally.processed > 0 ? 'processed' : work.tally.failed > 0 ? 'failed' : null
      return {
        webhookId,
        outcome: ended ?? (isRetry ? endedBefore(input, state) : null) ?? 'not claimed',
        status: state?.status ?? null,
        attempts: state?.attempts ?? null,
      }
    },
  }

  /** The row to run; null: another worker has it, it is settled, or it has lost too many workers. */
  async function nextRow(
    { work, queue: { rows, losses } }: { readonly work: WebhookWork; readonly queue: WebhookQueue },
    input: ProcessOneWebhook,
    isRetry: boolean,
    before: WebhookState | null,
  ): Promise<WebhookRow | null> {
    const { webhookId: id, claim } = input
    const [held] = isRetry ? await heldBy(db, rows, [claim]) : []
    if (held !== undefined) {
      const taken = await work.takeUp(held as WebhookRow, losses)
      return taken === null ? null : withDeliveryHeaders(db, tables, taken)
    }
    if (isRetry && endedBefore(input, before) !== null) return null
    const row =
      (await claimWebhook(db, tables, { id, claim, from: startOf(input) })) ??
      // The first try gave it back.
      (isRetry ? await claimWebhook(db, tables, { id, claim, from: { status: 'pending' } }) : null)
    return row === null ? null : work.unlessLostTooOften(row, losses)
  }

  /** Nothing claims the row meanwhile. @throws the last error when the worker stopped before the outcome was stored */
  async function runOne(work: WebhookWork, row: WebhookRow, ending: Ending): Promise<void> {
    const patience = { signal: ending.begun, logger }
    const outcome = ending.begun.aborted ? null : await work.run(row, ending.signal)
    if (outcome === null) await patiently('handing a row back', () => work.handBack([row]), patience)
    else await patiently('a settlement', () => work.settle([outcome]), patience)
  }
}

type WebhookWork = PumpedWork<WebhookRow, EndedWebhook, IntegrationContext>

/**
 * A row that has lost this many workers may be what kills them. Two are lost by all that a pump held when its worker and the next one
 * end, as in a rollout that goes wrong: one after the other, slow handlers would take minutes.
 */
const SUSPECT_LOSSES = 3
const ASK_AGAIN = '2 seconds'

/** Rows under suspicion run one at a time in a worker: what kills it takes none of the others with it, however many wait. */
class Suspects {
  #isBusy = false

  /** @returns ends its turn @throws ApplicationFailure `not_its_turn` */
  enter(losses: number): () => void {
    if (losses < SUSPECT_LOSSES) return () => {}
    if (this.#isBusy) throw notItsTurn('another webhook that has lost workers runs on this one', ASK_AGAIN)
    this.#isBusy = true
    return () => {
      this.#isBusy = false
    }
  }
}

function startOf({ replay = false, stuckAttempts }: ProcessWebhookInput): ClaimableFrom {
  if (replay) return { replay: true }
  return stuckAttempts === undefined ? { status: 'pending' } : { status: 'processing', attempts: stuckAttempts }
}

/** How an earlier try has settled the row: it is settled, and had not been when the job began. */
function endedBefore(
  { attemptsBefore = -1 }: ProcessOneWebhook,
  state: WebhookState | null,
): 'processed' | 'failed' | null {
  if (state === null || state.attempts <= attemptsBefore) return null
  return state.status === 'processed' || state.status === 'failed' ? state.status : null
}
