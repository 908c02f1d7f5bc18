import { z } from 'zod'
import { table } from '../cli/table.ts'
import { columns, command } from '../command.ts'
import { flag, id, optional, past, stream, whole, withDefault } from '../fields.ts'
import { shortError } from '../listing.ts'
import { Refused } from '../refused.ts'
import { SyncItemRow } from '../shapes.ts'

const FailedItem = SyncItemRow.pick({
  ...{
    id: true,
    integration_id: true,
    stream: true,
    event_class: true,
    external_id: true,
    error: true,
    attempts: true,
  },
  ...{ created_at: true, holds_cursor: true, made_up_for_by: true, next_attempt_at: true },
})

export const listFailedItems = command({
  name: 'list-failed-items',
  topic: 'Syncs',
  summary: 'Lists sync items that have failed and that no later run made up for, the newest first.',
  examples: [
    'integrations list-failed-items',
    'integrations list-failed-items --waiting',
    'integrations list-failed-items --integration 7 --since 2031-06-01T12:00:00Z --json',
  ],
  workflow: 'own',
  fields: {
    integration: optional(id('only of this integration')),
    stream: stream('only of this stream'),
    since: optional(past('only those listed then or later')),
    limit: withDefault(whole('the most items to list'), 50),
    all: flag('also those that a later run made up for'),
    waiting: flag('those that wait for another attempt, in place of failed ones'),
  },
  output: z.array(FailedItem),
  check({ all, waiting }) {
    if (all && waiting)
      throw new Refused('usage', '--all is of failed items, and --waiting of those that wait: give one of both.')
  },
  async run({ integrations, warn }, { integration: integrationId, stream, since, limit, all, waiting }) {
    const { syncItems } = integrations.admin
    if (integrationId !== undefined) await integrations.get(integrationId)
    const of = { ...(integrationId === undefined ? {} : { integrationId }), stream }
    const from = since === undefined ? {} : { since: since.toISOString() }
    // One more than asked for says whether there is more.
    const found = await syncItems.failed({ ...of, ...from, limit: limit + 1, all, waiting })
    if (found.length > limit) warn(`There are more than ${limit}; --limit shows more.`)
    const [waits] = waiting ? [] : await syncItems.failed({ ...of, waiting: true, limit: 1 })
    if (waits !== undefined) warn('Items wait for another attempt; --waiting shows them, with what they failed of.')
    return { data: found.slice(0, limit).map(columns), waiting, all }
  },
  document: ({ data }) => data,
  show({ data, waiting, all }) {
    if (data.length === 0) return waiting ? 'No waiting items.' : 'No failed items.'
    return table(
      [
        ...['ID', 'Integration', 'Event', 'External ID', 'Error', 'Attempts', 'Created'],
        ...(all ? ['Made up for by'] : []),
        ...(waiting ? ['Next attempt'] : []),
      ],
      data.map((row) => [
        ...[row.id, row.integration_id, row.event_class, row.external_id, shortError(row.error)],
        ...[row.attempts, row.created_at],
        ...(all ? [row.made_up_for_by] : []),
        ...(waiting ? [row.next_attempt_at] : []),
      ]),
    )
  },
})
