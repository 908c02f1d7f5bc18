/** Pruning as activities, one step each. Rule: docs/behaviour/pruning.md. */

import type { Framework } from '../framework/context.ts'
import { prunedRows, pruneRows } from '../retention/pruning.ts'
import type { PruneStepInput } from '../retention/rules.ts'
import { temporalSurroundings } from './surroundings.ts'

export function pruningActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /** May be run twice: what is gone is gone, and the counts go on where the first try left them. */
    async pruneStep(input: PruneStepInput): Promise<number> {
      return pruneRows(framework, input, { signal: surroundings().cancellationSignal })
    },
    /** What a step had done when it failed. Reads only. */
    async readPrunedRows(input: PruneStepInput): Promise<number> {
      return prunedRows(framework, input)
    },
  }
}
