/** The parts of a stack that are killed. */
export const TARGETS = ['api', 'worker', 'temporal', 'postgres'] as const

/** Those that a sync needs. */
export const SYNC_TARGETS = ['worker', 'temporal', 'postgres'] as const
export type SyncTarget = (typeof SYNC_TARGETS)[number]
