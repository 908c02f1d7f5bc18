/** The table of what each configuration key changes: `effect()` writes a row of it, `OPEN` names what is still to come. */
import { it } from 'vitest'

/**
 * Keys whose meaning is not built yet, each with the issue that ends with an effect test in its place. That a link or the
 * doctor names such a key already is not its effect.
 */
export const OPEN: Readonly<Record<string, number>> = {}

/** Most end within a second or two; all of a file run beside each other. */
const TIMEOUT_MS = 120_000

/**
 * One key, two values, two behaviours. effects.test.ts finds the keys by reading these calls: the key is written out.
 *
 * Tests of a file run beside each other, so each has an Integrations object and an integration of its own.
 */
export function effect(key: string, change: string, test: () => Promise<void>): void {
  it.concurrent(`${key} ${change}`, test, TIMEOUT_MS)
}
