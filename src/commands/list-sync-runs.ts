import { RUN_STATUSES } from '../syncs/run-rules.ts'
import { runDocument } from './cli/sync-run.ts'
import { choice, id, instant, optional, owner, provider } from './fields.ts'
import { listing } from './listing.ts'
import { SyncRunRow } from './shapes.ts'

/** So that a row fits a line; `show-sync-run` has it whole. */
const ERROR_LENGTH = 60

export const listSyncRuns = listing({
  name: 'list-sync-runs',
  topic: 'Syncs',
  summary: 'Lists sync runs and backfills, the newest first.',
  examples: [
    'integrations list-sync-runs --integration 7',
    'integrations list-sync-runs --status failed --since 2031-06-01T12:00:00Z --json',
  ],
  fields: {
    integration: optional(id('only of this integration')),
    provider: optional(provider('only of this provider')),
    owner: optional(owner('only of this owner')),
    status: optional(choice('only of this status', RUN_STATUSES, 'status')),
    since: optional(instant('only those begun then or later')),
    until: optional(instant('only those begun before')),
  },
  path: '/sync-runs',
  row: SyncRunRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Operation: 'operation',
    Status: 'status',
    Listed: 'listed',
    Succeeded: 'succeeded',
    Failed: 'failed',
    Skipped: 'skipped',
    ms: 'duration_ms',
    Error: ({ error }) => (error as string | null)?.slice(0, ERROR_LENGTH),
    Created: 'created_at',
  },
  none: 'No sync runs.',
  list: ({ integrations }, { integration, ...filter }) =>
    integrations.syncs.runs({ ...filter, integrationId: integration }),
  toRow: runDocument,
})
