/** Pruning as activities, one step each. Rule: docs/behaviour/pruning.md. */

import type { Framework } from '../framework/context.ts'
import { prunedRows, pruneRows } from '../retention/pruning.ts'
import type { PruneStepInput } from '../retention/rules.ts'
import { temporalSurroundings } from './surroundings.ts'

export function pruningActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /** May be run twice: deleted rows stay deleted, and the second try adds to the counts of the first. */
    async pruneStep(input: PruneStepInput): Promise<number> {
      return pruneRows(framework, input, { signal: surroundings().cancellationSignal })
    },
    /** The count of a step that failed. Reads only. */
    async readPrunedRows(input: PruneStepInput): Promise<number> {
      return prunedRows(framework, input)
    },
  }
}
