/** What goes into and comes out of the search for orphans. */

export interface FindOrphansInput {
  /** The model's name, as in `models`. */
  readonly model: string
  /** Only this integration's mappings count: a row that another one maps is an orphan, too. */
  readonly integrationId?: number
  /** How many orphans are named, at least 1. Default 50; all are counted. */
  readonly limit?: number
}

export interface Orphan {
  /** The model's key as text. */
  readonly id: string
  /** ISO 8601; null where the model has no such column. */
  readonly createdAt: string | null
}

export interface FindOrphansResult {
  readonly model: string
  /** Rows of the model that were looked at. */
  readonly scanned: number
  /** How many of them nothing maps. */
  readonly orphans: number
  /** The first of them by key, `limit` at most. */
  readonly rows: readonly Orphan[]
}
