import type { WebhookBatch, WebhookBatchResult } from '../../src/activities/webhooks.ts'

/** Pending rows as a number, and a batch activity that takes from them. */
export class ScriptedWebhooks {
  pending: number
  readonly claims: WebhookBatch[] = []
  /** Milliseconds that each batch says its slowest handler took. */
  slowestMs = 3
  /** Batches that run at this moment, and the most there were. */
  running = 0
  mostRunning = 0
  readonly #during: (batch: WebhookBatch, number: number) => unknown

  /** @param during runs inside a batch, after its claim */
  constructor(pending: number, during: (batch: WebhookBatch, number: number) => unknown = () => {}) {
    this.pending = pending
    this.#during = during
  }

  readonly processPendingWebhooks = async (batch: WebhookBatch): Promise<WebhookBatchResult> => {
    const number = this.claims.push(batch)
    const claimed = Math.min(batch.limit, this.pending)
    this.pending -= claimed
    this.running += 1
    this.mostRunning = Math.max(this.mostRunning, this.running)
    try {
      await this.#during(batch, number)
    } finally {
      this.running -= 1
    }
    return { claimed, processed: claimed, failed: 0, slowestMs: claimed === 0 ? 0 : this.slowestMs }
  }

  get limits(): number[] {
    return this.claims.map((batch) => batch.limit)
  }
}
