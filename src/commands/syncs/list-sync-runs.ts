import { RUN_STATUSES, runKind } from '../../syncs/run-rules.ts'
import { runDocument } from '../cli/sync-run.ts'
import { choice, optional, period, stream, whose } from '../fields.ts'
import { listing, shortError } from '../listing.ts'
import { SyncRunRow } from '../shapes.ts'

export const listSyncRuns = listing({
  name: 'list-sync-runs',
  topic: 'Syncs',
  summary: 'Lists sync runs and backfills, the newest first.',
  examples: [
    'integrations list-sync-runs --integration 7',
    'integrations list-sync-runs --status failed --since 2031-06-01T12:00:00Z --json',
  ],
  fields: {
    ...whose,
    stream: stream('only of this stream'),
    status: optional(choice('only of this status', RUN_STATUSES, 'status')),
    ...period('begun'),
  },
  path: '/sync-runs',
  row: SyncRunRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Stream: 'stream',
    Operation: runKind,
    Status: 'status',
    Listed: 'listed',
    Succeeded: 'succeeded',
    Failed: 'failed',
    Skipped: 'skipped',
    ms: 'duration_ms',
    Error: ({ error }) => shortError(error as string | null),
    Created: 'created_at',
  },
  none: 'No sync runs.',
  list: ({ integrations }, filter) => integrations.syncs.runs(filter),
  toRow: runDocument,
})
