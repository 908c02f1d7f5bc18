import type { Command } from 'commander'
import type { Integrations } from '../../integrations.ts'
import { instant, integrationId, limit } from '../arguments.ts'
import type { Frame } from '../frame.ts'
import { table } from '../frame.ts'

const DEFAULT_LIMIT = 50
/** So that a row fits a line; `--json` has it whole. */
const ERROR_LENGTH = 60

interface Filters {
  readonly integration?: number
  readonly since?: Date
  readonly limit: number
}

/** `integrations list-failed-items`: the newest first. */
export function listFailedItemsCommand(frame: Frame): Command {
  return frame
    .command('list-failed-items', 'Lists sync items that have failed, the newest first.', [
      'integrations list-failed-items',
      'integrations list-failed-items --integration 7 --since 2031-06-01T12:00:00Z --json',
    ])
    .option('--integration <id>', 'only of this integration', integrationId)
    .option('--since <instant>', 'only those listed then or later', instant)
    .option('--limit <n>', 'at most so many', limit, DEFAULT_LIMIT)
    .action(
      frame.action(async ({ integrations, warn }, { integration, since, limit }: Filters) => {
        if (integration !== undefined) await integrations.get(integration)
        const found = await integrations.syncItems.failed({
          ...(integration === undefined ? {} : { integrationId: integration }),
          ...(since === undefined ? {} : { since: since.toISOString() }),
          // One more than asked for says whether there is more.
          limit: limit + 1,
        })
        if (found.length > limit) warn(`There are more than ${limit}; --limit shows more.`)
        const rows = found.slice(0, limit).map(rowOf)
        return { document: rows, text: rows.length === 0 ? 'No failed items.' : textOf(rows) }
      }),
    )
}

type FailedItem = Awaited<ReturnType<Integrations['syncItems']['failed']>>[number]
type Row = ReturnType<typeof rowOf>

function rowOf({ id, integrationId, eventClass, externalId, error, attempts, createdAt }: FailedItem) {
  return {
    id,
    integration_id: integrationId,
    event_class: eventClass,
    external_id: externalId,
    error,
    attempts,
    created_at: createdAt,
  }
}

function textOf(rows: readonly Row[]): string {
  return table(
    ['ID', 'Integration', 'Event', 'External ID', 'Error', 'Attempts', 'Created'],
    rows.map((row) => [
      row.id,
      row.integration_id,
      row.event_class,
      row.external_id,
      row.error?.slice(0, ERROR_LENGTH),
      row.attempts,
      row.created_at,
    ]),
  )
}
