/**
 * How long a test waits for what comes by itself: far longer than it ever takes on a machine that is busy with other tests. A test
 * that asks whether something comes at all waits so; only a promise about time has a bound of its own.
 */
export const SOON = { timeout: 20_000, interval: 20 } as const
