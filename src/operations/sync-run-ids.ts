/** A run and whose it is. */
export interface RunIds {
  readonly integrationId: number
  /** The run's row in the operation logs. */
  readonly syncLogId: number
}
