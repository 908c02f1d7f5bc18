/** A host's own records, as far as the framework needs to know them to map external ids to them. */

/** Points at one record of the host: the model's name and the record's key as text. */
export interface ModelRef {
  readonly type: string
  readonly id: string
}

/**
 * A model of the host.
 *
 * `tx` is the transaction in which the mapping is written too, so that both come or none; a model in another database
 * ignores it and gives `remove`, which deletes a record whose claim was lost.
 *
 * @typeParam Row what the host's queries return
 * @typeParam Attributes what creating or updating one takes
 */
export interface MappedModel<Row = unknown, Attributes = unknown> {
  /** Stored in `internal_type`. */
  readonly type: string
  of(rowOrId: Row | string | number): ModelRef
  find(tx: unknown, id: string): Promise<Row | null>
  findMany(tx: unknown, ids: readonly string[]): Promise<Row[]>
  create(tx: unknown, attributes: Attributes): Promise<Row>
  update(tx: unknown, id: string, attributes: Attributes): Promise<Row>
  /** Records after `afterId` in key order, `limit` at most. */
  scan(tx: unknown, afterId: string | null, limit: number): Promise<{ id: string; createdAt: Date | null }[]>
  remove?(id: string): Promise<void>
  /** What keeps the model from working, such as a column that its table lacks; none: empty. Asked by the doctor and at a worker's start. */
  problems?(tx: unknown): Promise<readonly string[]>
}
