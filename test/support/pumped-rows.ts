/** Rows of a pump without a database. */
import type { PumpedRow } from '../../src/claims/pump.ts'
import type { Queued } from '../../src/claims/queues.ts'

export interface Row extends PumpedRow {
  readonly what?: string
}

export interface QueuedValues {
  readonly bytes?: number
  readonly startBy?: number
  readonly key?: string
  readonly version?: number
}

let ids = 0

export function queuedRow(
  queue: number,
  { bytes = 100, startBy = Number.POSITIVE_INFINITY, key, version = 1 }: QueuedValues = {},
): Queued<Row> {
  ids += 1
  return { row: { id: ids }, queue, bytes, startBy, guarded: key === undefined ? null : { key, version } }
}
