import type { Command } from 'commander'
import { Option } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { instant, integrationId, limit } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

const DEFAULT_LIMIT = 50
/** So that a row fits a line; `--json` has it whole. */
const ERROR_LENGTH = 60

interface Filters {
  readonly integration?: number
  readonly since?: Date
  readonly limit: number
  readonly all: boolean
  readonly waiting: boolean
}

/** `integrations list-failed-items`: the newest first. */
export function listFailedItemsCommand(frame: Frame): Command {
  return frame
    .command(
      'list-failed-items',
      'Lists sync items that have failed and that no later run made up for, the newest first.',
      [
        'integrations list-failed-items',
        'integrations list-failed-items --waiting',
        'integrations list-failed-items --integration 7 --since 2031-06-01T12:00:00Z --json',
      ],
    )
    .option('--integration <id>', 'only of this integration', integrationId)
    .option('--since <instant>', 'only those listed then or later', instant)
    .option('--limit <n>', 'at most so many', limit, DEFAULT_LIMIT)
    .option('--all', 'also those that a later run made up for', false)
    .addOption(
      new Option('--waiting', 'those that wait for another attempt, in place of failed ones')
        .default(false)
        .conflicts('all'),
    )
    .action(
      frame.action(async ({ integrations, warn }, { integration, since, limit, all, waiting }: Filters) => {
        if (integration !== undefined) await integrations.get(integration)
        const found = await integrations.admin.syncItems.failed({
          ...(integration === undefined ? {} : { integrationId: integration }),
          ...(since === undefined ? {} : { since: since.toISOString() }),
          // One more than asked for says whether there is more.
          limit: limit + 1,
          all,
          waiting,
        })
        if (found.length > limit) warn(`There are more than ${limit}; --limit shows more.`)
        const rows = found.slice(0, limit).map(rowOf)
        if (!waiting && (await anyWaits(integrations, integration)))
          warn('Items wait for another attempt; --waiting shows them, with what they failed of.')
        const none = waiting ? 'No waiting items.' : 'No failed items.'
        return { document: rows, text: rows.length === 0 ? none : textOf(rows, waiting) }
      }),
    )
}

type FailedItem = Awaited<ReturnType<Integrations['admin']['syncItems']['failed']>>[number]
type Row = ReturnType<typeof rowOf>

async function anyWaits({ admin: { syncItems } }: Integrations, integrationId: number | undefined): Promise<boolean> {
  for await (const _ of syncItems.list({ integrationId, waiting: true, limit: 1 })) return true
  return false
}

function rowOf(item: FailedItem) {
  const { id, integrationId, eventClass, externalId, error, attempts, createdAt } = item
  return {
    id,
    integration_id: integrationId,
    event_class: eventClass,
    external_id: externalId,
    error,
    attempts,
    created_at: createdAt,
    holds_cursor: item.holdsCursor,
    made_up_for_by: item.madeUpForBy,
    next_attempt_at: item.nextAttemptAt,
  }
}

function textOf(rows: readonly Row[], areWaiting: boolean): string {
  return table(
    [
      ...['ID', 'Integration', 'Event', 'External ID', 'Error', 'Attempts', 'Created', 'Holds cursor'],
      areWaiting ? 'Next attempt' : 'Made up for by',
    ],
    rows.map((row) => [
      row.id,
      row.integration_id,
      row.event_class,
      row.external_id,
      row.error?.slice(0, ERROR_LENGTH),
      row.attempts,
      row.created_at,
      row.holds_cursor,
      areWaiting ? row.next_attempt_at : row.made_up_for_by,
    ]),
  )
}
