/** The search for orphans as an activity, so that Temporal's own tools can run it. Rule: docs/behaviour/mappings.md, "Orphans". */
import { InvalidArgumentException } from '../core/errors.ts'
import type { FindOrphansInput, FindOrphansResult } from '../core/orphan-jobs.ts'
import type { Framework } from '../framework.ts'
import { findOrphans } from '../operations/orphans.ts'
import { temporalSurroundings } from './surroundings.ts'

/** So that a result fits into a history: Temporal refuses payloads of 2 MB, and a key takes up to 255 characters. */
const MAX_LIMIT = 5_000

export function orphanActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /** Looks only, so a second try begins anew. */
    async findOrphanRows(input: FindOrphansInput): Promise<FindOrphansResult> {
      const { limit = 0 } = input
      if (limit > MAX_LIMIT)
        throw new InvalidArgumentException('limit', `at most ${MAX_LIMIT} is allowed in a workflow, ${limit} was given`)
      return findOrphans(framework, input, { signal: surroundings().cancellationSignal })
    },
  }
}
