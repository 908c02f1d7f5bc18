import type { Command } from 'commander'
import { syncRunId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { runDocument } from './cli/sync-run.ts'
import { table } from './cli/table.ts'

/** A line of a screen; `--json` has the whole. */
const SHOWN_ERROR_LENGTH = 200

/** `integrations show-sync-run <id>`: one run, and its items by status. */
export function showSyncRunCommand(frame: Frame): Command {
  return frame
    .command('show-sync-run', 'Shows one sync run or backfill, and how many of its items are in each status.', [
      'integrations show-sync-run 4711',
      'integrations show-sync-run 4711 --json',
    ])
    .argument('<id>', 'id of the run, as `list-sync-runs` has it', syncRunId)
    .action(
      frame.action(async ({ integrations }, id: number) => {
        const run = await integrations.syncs.run(id)
        const document = {
          ...runDocument(run),
          items: run.items,
          waiting: run.waiting,
          next_attempt_at: run.nextAttemptAt?.toISOString() ?? null,
          errors: run.errors,
          metadata: run.metadata,
        }
        const { items, waiting, next_attempt_at: next, errors, metadata, ...fields } = document
        const rows = [
          ...Object.entries(fields),
          ...Object.entries(items).map(([status, n]) => [`items ${status}`, n]),
          ['items waiting for another attempt', waiting],
          ['the next of them', next],
          ...errors.map(({ error, items: n }, at) => [
            `error ${at + 1}`,
            `${n} x ${error.slice(0, SHOWN_ERROR_LENGTH)}`,
          ]),
          ['metadata', metadata],
        ]
        return { document, text: table(['Field', 'Value'], rows) }
      }),
    )
}
