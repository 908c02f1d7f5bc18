import type { Command } from 'commander'
import { Option } from 'commander'
import { RUN_STATUSES } from '../syncs/run-rules.ts'
import { instant, integrationId, limit, syncRunId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import type { RunDocument } from './cli/sync-run.ts'
import { runDocument } from './cli/sync-run.ts'
import { table } from './cli/table.ts'

const DEFAULT_LIMIT = 50
/** So that a row fits a line; `show-sync-run` has it whole. */
const ERROR_LENGTH = 60

interface Filters {
  readonly integration?: number
  readonly status?: (typeof RUN_STATUSES)[number]
  readonly since?: Date
  readonly until?: Date
  readonly after?: number
  readonly limit: number
}

/** `integrations list-sync-runs`: the newest first. */
export function listSyncRunsCommand(frame: Frame): Command {
  return frame
    .command('list-sync-runs', 'Lists sync runs and backfills, the newest first.', [
      'integrations list-sync-runs --integration 7',
      'integrations list-sync-runs --status failed --since 2031-06-01T12:00:00Z --json',
    ])
    .option('--integration <id>', 'only of this integration', integrationId)
    .addOption(new Option('--status <status>', 'only of this status').choices(RUN_STATUSES))
    .option('--since <instant>', 'only those begun then or later', instant)
    .option('--until <instant>', 'only those begun before', instant)
    .option('--after <id>', 'only ids below this one: the next page', syncRunId)
    .option('--limit <n>', 'at most so many', limit, DEFAULT_LIMIT)
    .action(
      frame.action(async ({ integrations, warn }, { limit, integration, ...filters }: Filters) => {
        if (integration !== undefined) await integrations.get(integration)
        const rows: RunDocument[] = []
        // One more than asked for says whether there is more.
        const wanted = { ...filters, integrationId: integration, limit: limit + 1 }
        for await (const run of integrations.syncs.runs(wanted)) rows.push(runDocument(run))
        if (rows.length > limit) {
          rows.length = limit
          warn(`There are more than ${limit}; --limit shows more, --after ${rows.at(-1)?.id} the next ones.`)
        }
        return { document: rows, text: rows.length === 0 ? 'No sync runs.' : textOf(rows) }
      }),
    )
}

function textOf(rows: readonly RunDocument[]): string {
  return table(
    ['ID', 'Integration', 'Operation', 'Status', 'Listed', 'Succeeded', 'Failed', 'Skipped', 'ms', 'Error', 'Created'],
    rows.map((row) => [
      row.id,
      row.integration_id,
      row.operation,
      row.status,
      row.listed,
      row.succeeded,
      row.failed,
      row.skipped,
      row.duration_ms,
      row.error?.slice(0, ERROR_LENGTH),
      row.created_at,
    ]),
  )
}
