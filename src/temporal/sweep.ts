/**
 * Wakes, every half minute, the inbox if rows have waited although it should have looked, and the outbox: the process that stored
 * them died before it could tell. Rule: docs/behaviour/webhook-recovery.md, "Wake-ups".
 */
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'

const SWEEP_EVERY_MS = 30_000
/** Long enough for the wake-up of the arrival itself, and for its first tries. */
const WAITS_SINCE_SECONDS = 20

export interface Sweeping {
  readonly webhooks: { wakePending(options: { olderThanSeconds: number }): Promise<number> }
  readonly admin: { readonly notifications: { wakePending(): Promise<boolean> }; readonly logger: Logger }
}

/** @returns ends it */
export function sweepPending({ webhooks, admin: { notifications, logger } }: Sweeping): () => void {
  let isSweeping = false
  const sweep = async (): Promise<void> => {
    // One that waits for Postgres is enough.
    if (isSweeping) return
    isSweeping = true
    try {
      const woken = await webhooks.wakePending({ olderThanSeconds: WAITS_SINCE_SECONDS })
      if (woken > 0) logger.info({ event: 'webhook.swept', integrations: woken }, 'woke the inbox: rows have waited')
      await notifications.wakePending()
    } catch (error) {
      logger.warn({ event: 'webhook.sweep_failed', error: errorLine(error, 300) }, 'could not look for rows that wait')
    } finally {
      isSweeping = false
    }
  }
  const timer = setInterval(() => void sweep(), SWEEP_EVERY_MS)
  // A process that has nothing else to do may end.
  timer.unref()
  return () => clearInterval(timer)
}
