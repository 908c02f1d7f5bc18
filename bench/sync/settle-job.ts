/** What a job of every peer does: its item's row, in one statement, with the columns that ours sets. */

/** $1 id of a pending row. */
export const SETTLE = `
  update peer_sync_items
  set status = 'success', attempts = attempts + 1, completed_at = clock_timestamp(), updated_at = clock_timestamp()
  where id = $1 and status = 'pending'`

/** The name of graphile-worker's task. */
export const TASK = 'contact_changed'

export interface Job {
  readonly itemId: number
  /** The item itself comes in the job, so that no statement has to fetch it. */
  readonly contact: unknown
}
