import { SYNC_ITEM_STATUSES } from '../../syncs/items/item-rules.ts'
import { choice, id, optional, period, stream, text, whose, yesOrNo } from '../fields.ts'
import { listing, shortError } from '../listing.ts'
import { Refused } from '../refused.ts'
import { SyncItemRow } from '../shapes.ts'
import { shownStatus } from './show-sync-item.ts'

export const listSyncItems = listing({
  name: 'list-sync-items',
  topic: 'Syncs',
  summary: 'Lists sync items of any status, the newest first.',
  examples: [
    'integrations list-sync-items --run 815 --status pending',
    'integrations list-sync-items --integration 7 --external-id issue-12 --json',
  ],
  fields: {
    ...whose,
    stream: stream('only of this stream; over all integrations in the last 24 hours, unless a time is given'),
    run: optional(id('only of this run')),
    status: optional(choice('only of this status', SYNC_ITEM_STATUSES, 'status')),
    waiting: yesOrNo('whether they wait for another attempt'),
    madeUpFor: yesOrNo('only failed ones: whether a later run made up for them'),
    event: optional(
      text('only of this event class; over all integrations in the last 24 hours, unless a time is given', 'type'),
    ),
    externalId: optional(text('with --integration or --run: only of this external id', 'text', 500)),
    ...period('listed'),
  },
  path: '/sync-items',
  row: SyncItemRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Stream: 'stream',
    Run: 'sync_log_id',
    Event: 'event_class',
    'External ID': 'external_id',
    Status: shownStatus,
    Attempts: 'attempts',
    Error: ({ error, last_error: last }) => shortError((error ?? last) as string | null),
    Created: 'created_at',
  },
  none: 'No sync items.',
  check({ externalId, integration, run }) {
    if (externalId !== undefined && (integration ?? run) === undefined)
      throw new Refused(
        'usage',
        'An external id is looked for in one integration or one run: give either.',
        'externalId',
      )
  },
  list: ({ integrations }, { run, event, ...filter }) =>
    integrations.admin.syncItems.list({ ...filter, syncLogId: run, eventClass: event }),
})
