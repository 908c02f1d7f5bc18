/** What processes do again and again, beside their work. */
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'

const SWEEP_EVERY_MS = 30_000
/** Long enough for the wake-up of the arrival itself, and for its first tries. */
const WAITS_SINCE_SECONDS = 20

export interface Sweeping {
  readonly webhooks: { wakePending(options: { olderThanSeconds: number }): Promise<number> }
  readonly admin: { readonly notifications: { wakePending(): Promise<boolean> }; readonly logger: Logger }
}

/**
 * Wakes the inbox if rows have waited although it should have looked, and the outbox: the process that stored them died before it
 * could tell. Rule: docs/behaviour/webhook-recovery.md, "Wake-ups".
 *
 * @returns ends it
 */
export function sweepPending({ webhooks, admin: { notifications, logger } }: Sweeping): () => void {
  return repeated(
    SWEEP_EVERY_MS,
    async () => {
      const woken = await webhooks.wakePending({ olderThanSeconds: WAITS_SINCE_SECONDS })
      if (woken > 0) logger.info({ event: 'webhook.swept', integrations: woken }, 'woke the inbox: rows have waited')
      await notifications.wakePending()
    },
    (error) =>
      logger.warn({ event: 'webhook.sweep_failed', error: errorLine(error, 300) }, 'could not look for rows that wait'),
  )
}

const STARTS_EVERY_MS = 1_000
/** While it fails, it says so this often. */
const WARNS_EVERY_MS = 30_000

/**
 * Begins remembered starts, each second. Rule: docs/behaviour/sync-scheduling.md, "Remembered starts".
 *
 * @param look begins those that can. @returns ends it
 */
export function sweepStarts(look: (now: number) => Promise<void>, logger: Logger): () => void {
  let warnedAt = Number.NEGATIVE_INFINITY
  return repeated(
    STARTS_EVERY_MS,
    () => look(performance.now()),
    (error) => {
      const now = performance.now()
      if (now - warnedAt < WARNS_EVERY_MS) return
      warnedAt = now
      logger.warn(
        { event: 'sync.remembered_unseen', error: errorLine(error, 300) },
        'could not begin syncs that were asked for; each second it is tried again',
      )
    },
  )
}

/** A minute's rows are counted soon after it has ended; a pass that comes again within the minute reads one row. */
const ROLLS_UP_EVERY_MS = 20_000

/**
 * Counts rows for the charts. Rule: docs/behaviour/charts.md, "Counting".
 *
 * @param pass counts what has come since the last one. @returns ends it
 */
export function sweepRollUps(pass: () => Promise<unknown>, logger: Logger): () => void {
  return repeated(ROLLS_UP_EVERY_MS, pass, (error) =>
    logger.warn(
      { event: 'charts.roll_up_failed', error: errorLine(error, 300) },
      'rows could not be counted for the charts; the next pass takes them',
    ),
  )
}

const SCHEDULES_EVERY_MS = 30_000

/**
 * Notes whether the Schedule of due syncs is paused, now and again and again. Rule: docs/behaviour/syncs.md, "Pause and resume".
 *
 * @param look asks Temporal. @returns ends it
 */
export function sweepSchedulePause(look: () => Promise<void>, logger: Logger): () => void {
  const onFailure = (error: unknown): void =>
    logger.warn(
      { event: 'schedules.unseen', error: errorLine(error, 300) },
      'could not look whether the Schedule of due syncs is paused; it is tried again in 30 s',
    )
  return repeated(SCHEDULES_EVERY_MS, look, onFailure, { isBegunAtOnce: true })
}

/** @returns ends it */
function repeated(
  everyMs: number,
  look: () => Promise<unknown>,
  onFailure: (error: unknown) => void,
  { isBegunAtOnce = false } = {},
): () => void {
  let isLooking = false
  let isOver = false
  const pass = async (): Promise<void> => {
    // One that waits for Postgres is enough.
    if (isLooking) return
    isLooking = true
    try {
      await look()
    } catch (error) {
      // The process stops and closes Postgres under the look: that is no fault.
      if (!isOver) onFailure(error)
    } finally {
      isLooking = false
    }
  }
  if (isBegunAtOnce) void pass()
  const timer = setInterval(pass, everyMs)
  // A process that has nothing else to do may end.
  timer.unref()
  return () => {
    isOver = true
    clearInterval(timer)
  }
}
