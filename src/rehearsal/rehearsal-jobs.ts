/** What a rehearsal takes and gives: plain data, since the process that plays is another one than the one that compares. */
import type { Json } from '../framework/json.ts'

export type PieceKind = 'webhook' | 'item'

export interface RehearsalInput {
  /** ISO 8601: only what was handled then or later. */
  readonly since: string
  /** Pieces at most, the oldest first. */
  readonly limit: number
  readonly integrationId?: number | undefined
}

/** A call as it was asked for, in the form in which the request log keeps it: redacted, then cut. */
export interface AskedCall {
  readonly method: string
  readonly endpoint: string
  readonly data: string | null
  readonly idempotencyKey: string | null
  /** The host's record, such as `order:7`. */
  readonly relatedTo: string | null
}

/** What the call's function sent on the wire. The request log does not have it. */
export interface SentOnWire {
  readonly method: string
  readonly url: string
  /** SHA-256 in hex of the body; null: it had none. */
  readonly bodyHash: string | null
}

/** A call that happened, all its attempts together. */
export interface RecordedCall extends AskedCall {
  /** When its first attempt began and its last one was settled, in milliseconds since the epoch. */
  readonly beganAtMs: number
  readonly settledAtMs: number
}

export interface PlayedCall extends AskedCall {
  /** Null: the log has no such call of this piece. Else its number there, from 0. */
  readonly recorded: number | null
  readonly sent: readonly SentOnWire[]
  readonly span: CallSpan
}

/** When a call of a rehearsal began and ended: steps of the piece, not times. */
export interface CallSpan {
  readonly began: number
  readonly ended: number
}

/** How the handling of a piece ended. */
export interface Handled {
  readonly status: 'succeeded' | 'failed' | 'put off'
  readonly error: string | null
  /** Of a webhook's handler; null for an item. */
  readonly result: Json
}

/** A write that was tried. Moments of the rehearsal itself stand as `(now)`. */
export interface RowChange {
  readonly table: string
  /** `insert`: tried, even where a row was in its way; `inserted`: it took place. */
  readonly operation: 'insert' | 'inserted' | 'update' | 'delete' | 'truncate'
  readonly before: Json
  readonly after: Json
}

/** A delivery or an item: what happened, and what happens now. */
export interface Piece {
  readonly kind: PieceKind
  readonly id: number
  readonly integrationId: number
  /** Of a webhook its event's type, of an item its event's class. */
  readonly type: string | null
  /** ISO 8601: when it was handled. */
  readonly handledAt: string
  readonly happened: Handled & { readonly calls: readonly RecordedCall[] }
  /** Null: it was not run. `cannot` says why. */
  readonly now: Played | null
  /** Why it can't be rehearsed, or not to its end. Empty: it was. */
  readonly cannot: readonly string[]
}

export interface Played extends Handled {
  readonly calls: readonly PlayedCall[]
  readonly rows: readonly RowChange[]
  /** Workflows that it would have started. */
  readonly started: readonly string[]
  /** Connections and programs of its own that were refused. */
  readonly refused: readonly string[]
}

export interface Recording {
  readonly pieces: readonly Piece[]
  /** There are more than `limit`. */
  readonly more: boolean
}

/** A difference between a piece's two handlings. */
export interface Difference {
  readonly kind: PieceKind
  readonly id: number
  readonly integrationId: number
  readonly what:
    | 'outcome'
    | 'call missing'
    | 'call added'
    | 'call changed'
    | 'call order'
    | 'rows'
    | 'workflows'
    | 'network'
  /** In words. */
  readonly message: string
  readonly before: Json
  readonly after: Json
}
