/** The search for orphans as an activity, so that Temporal's own tools can run it. Rule: docs/behaviour/mappings.md, "Orphans". */

import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { FindOrphansInput, FindOrphansResult, Orphan } from '../mappings/mapping-jobs.ts'
import { findOrphans } from '../mappings/orphans.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Half of what Temporal takes as a payload: https://docs.temporal.io/cloud/limits#per-message-grpc-limit */
const MAX_ROWS_BYTES = 1_000_000
const MAX_LIMIT = 5_000

export function orphanActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /** Only looks, so a second try starts over. */
    async findOrphanRows(input: FindOrphansInput): Promise<FindOrphansResult> {
      const { limit = 0 } = input
      if (limit > MAX_LIMIT)
        throw new InvalidArgumentException('limit', `at most ${MAX_LIMIT} is allowed in a workflow, ${limit} was given`)
      const found = await findOrphans(framework, input, { signal: surroundings().cancellationSignal })
      return { ...found, rows: fitting(found.rows) }
    },
  }
}

/** The first rows, as many as a result can carry: a host's keys may be long. All are counted. */
function fitting(rows: readonly Orphan[]): readonly Orphan[] {
  let bytes = 0
  const tooMany = rows.findIndex((row) => {
    bytes += Buffer.byteLength(JSON.stringify(row)) + 1
    return bytes > MAX_ROWS_BYTES
  })
  return tooMany < 0 ? rows : rows.slice(0, tooMany)
}
