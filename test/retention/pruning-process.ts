/**
 * A process of pruning.long.test.ts: `<run id>`. Prunes as the workflow does, step by step; the database comes from the environment. It says over
 * IPC how far it is.
 */

import { createIntegrations, partsOf } from '../../src/create-integrations.ts'
import { pruneRows } from '../../src/retention/pruning.ts'
import type { PruneCounts, PruningStep } from '../../src/retention/rules.ts'
import { PRUNING_STEPS } from '../../src/retention/rules.ts'

/** What the process says. */
export type Said =
  | { readonly kind: 'progress'; readonly step: PruningStep; readonly rows: number }
  | { readonly kind: 'pruned'; readonly counts: PruneCounts; readonly seconds: number }
  | { readonly kind: 'failed'; readonly message: string }

const say = (said: Said): void => void process.send?.(said)
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({ providers: { acme: {} }, logger: silent })
const orphaned = () => process.exit(1)
process.on('disconnect', orphaned)

const [runId = ''] = process.argv.slice(2)
try {
  await integrations.ready()
  const { framework } = partsOf(integrations)
  const began = performance.now()
  const counts: Partial<Record<PruningStep, number>> = {}
  for (const step of PRUNING_STEPS)
    counts[step] = await pruneRows(
      framework,
      { step, runId },
      { signal: new AbortController().signal, onProgress: (rows) => say({ kind: 'progress', step, rows }) },
    )
  say({ kind: 'pruned', counts: counts as PruneCounts, seconds: (performance.now() - began) / 1_000 })
} catch (error) {
  say({ kind: 'failed', message: String(error) })
  process.exitCode = 1
} finally {
  await integrations.close()
  process.off('disconnect', orphaned)
  process.disconnect?.()
}
