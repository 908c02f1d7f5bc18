/** Sync runs as commands show them. Rule: docs/commands.md, "show-sync-run". */
import type { Integrations } from '../../create-integrations.ts'
import { streamOption } from '../../syncs/stream-rules.ts'
import { columns } from '../command.ts'

type SyncRun = ReturnType<Integrations['syncs']['runs']> extends AsyncIterable<infer Run> ? Run : never

export type RunDocument = ReturnType<typeof runDocument>

/** Its columns, and what its metadata says of the listing, the items and the cursor. */
export function runDocument(run: SyncRun) {
  const told = fieldsOf(run.metadata)
  return {
    ...columns(run),
    listed: numberIn(told.listed),
    succeeded: numberIn(told.success_count),
    failed: numberIn(told.failure_count),
    skipped: numberIn(told.skipped_count),
    cursor_before: told.cursor_before ?? null,
    cursor_after: told.cursor_after ?? null,
  }
}

/** An erased row has none. */
function fieldsOf(metadata: unknown): Readonly<Record<string, unknown>> {
  return typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : {}
}

const numberIn = (value: unknown): number | null => (typeof value === 'number' ? value : null)

/** How a run ended, in a sentence; what to do next where that is not plain. */
export function endText(run: RunDocument): string {
  const { id, integration_id: of, stream, status, listed, succeeded, failed, skipped, error, duration_ms: ms } = run
  if (status === 'processing')
    return `Run ${id} has not ended, and nothing works on it: its workflow is gone. The next run takes up what is left: \`integrations sync --integration ${of}${streamOption(stream)}\`.`
  const counts = [
    [listed, 'listed'],
    [succeeded, 'succeeded'],
    [failed, 'failed'],
    [skipped, 'skipped'],
  ].flatMap(([n, what]) => (n === null ? [] : [`${n} ${what}`]))
  const lines = [
    `Run ${id}: ${status}${counts.length === 0 ? '' : `, ${counts.join(', ')}`}${ms === null ? '' : `, in ${(ms / 1_000).toFixed(1)} s`}.`,
    ...(error === null ? [] : [error]),
    ...(failed === null || failed === 0
      ? []
      : [
          `The cursor stays until a later run makes up for them, or they are skipped: mend what they failed of, and run it again. \`integrations list-failed-items --integration ${of}${streamOption(stream)}\` shows them.`,
        ]),
  ]
  return lines.join('\n')
}
