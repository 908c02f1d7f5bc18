import type { WorkflowHandleWithSignaledRunId } from '@temporalio/client'
import type { EventBatch, EventBatchResult } from '../../src/activities/events.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import type { OutboxInput, OutboxState } from '../../src/workflows/messages.ts'
import { arrived } from '../../src/workflows/messages.ts'
import type { Scene } from './stage.ts'

const NOTHING: EventBatchResult = { claimed: 0, processed: 0, failed: 0, slowestMs: 0, nextDueInMs: null }

/** A batch activity whose results are written down; after the last of them nothing is left. */
export class ScriptedEvents {
  readonly batches: EventBatch[] = []
  /** The server's time at which each batch began. */
  readonly at: number[] = []
  scene: Scene | undefined
  readonly #results: readonly Partial<EventBatchResult>[]
  readonly #during: (number: number) => unknown

  /** @param during runs inside a batch, counted from 1 */
  constructor(results: readonly Partial<EventBatchResult>[], during: (number: number) => unknown = () => {}) {
    this.#results = results
    this.#during = during
  }

  readonly deliverEvents = async (batch: EventBatch): Promise<EventBatchResult> => {
    const number = this.batches.push(batch)
    // By its number: two batches that begin together may learn the time in another order.
    this.at[number - 1] = (await this.scene?.now()) ?? 0
    await this.#during(number)
    return { ...NOTHING, ...this.#results[number - 1] }
  }

  get limits(): number[] {
    return this.batches.map(({ limit }) => limit)
  }

  /** Seconds between each batch and the one before it. */
  get waits(): number[] {
    return this.at.slice(1).map((at, index) => Math.round((at - (this.at[index] as number)) / 1_000))
  }
}

/** As whoever stored a row does it. */
export function wakeOutbox(
  { client, taskQueue, workflowId }: Scene,
  input: OutboxInput = {},
): Promise<WorkflowHandleWithSignaledRunId<(input: OutboxInput) => Promise<OutboxState>>> {
  return client.signalWithStart(WORKFLOW.eventOutbox, {
    workflowId,
    taskQueue,
    args: [input],
    signal: arrived,
    signalArgs: [],
  })
}
