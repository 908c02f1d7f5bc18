/** What is pruned, in this order. Rule: docs/behaviour/pruning.md. */

export const PRUNING_STEPS = [
  'requests',
  'logs',
  'idempotency_keys',
  'sync_items',
  'incidents_closed',
  'incidents',
  'cache',
  'events',
  'webhooks',
  'audit',
] as const

/** `incidents_closed`: open ones that are closed by themselves; every other step deletes rows. */
export type PruningStep = (typeof PRUNING_STEPS)[number]

export interface PruneStepInput {
  readonly step: PruningStep
  /** The run that counts: a second try of a step goes on with the counts of the first. */
  readonly runId: string
}

/** Rows, by step. */
export type PruneCounts = Readonly<Record<PruningStep, number>>

export interface PruneResult {
  /** A step that failed counts what it had done. */
  readonly counts: PruneCounts
  readonly failed: readonly { readonly step: PruningStep; readonly error: string }[]
}
