/** The parts of a stack, each of which is killed. */
export const TARGETS = ['api', 'worker', 'temporal', 'postgres'] as const
export type Target = (typeof TARGETS)[number]
