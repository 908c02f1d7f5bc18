import { z } from 'zod'
import type { Json } from '../../framework/json.ts'
import { table } from '../cli/table.ts'
import { columns, command } from '../command.ts'
import { choice, json, whole, whose, withDefault } from '../fields.ts'
import { all, moment, rowId } from '../shapes.ts'

const CUT = {
  rows: 'more rows than are looked through lie within the time: take fewer hours, or one integration',
  time: 'it took too long: take fewer hours, or one integration',
  matches: 'there may be more: a greater limit shows them',
} as const

export const searchPayloads = command({
  name: 'search-payloads',
  topic: 'Trouble',
  summary: 'Finds webhooks or sync items of the last hours whose payload holds a JSON value, at any depth.',
  examples: [
    `integrations search-payloads '{"number": 17}' --hours 2`,
    `integrations search-payloads '"octo@example.com"' --kind item --integration 7`,
  ],
  places: ['contains'],
  workflow: { none: 'the search text is a piece of a payload, which must not be copied into a workflow history' },
  fields: {
    contains: json('what the payload holds: an object with some of its keys, or a value'),
    kind: withDefault(choice('which payloads', ['webhook', 'item']), 'webhook'),
    ...whose,
    hours: withDefault(whole('how far back', { max: 168, placeholder: 'hours' }), 24),
    limit: withDefault(whole('the most to find', { max: 200 }), 50),
  },
  reach: 'filtered',
  output: z.object({
    data: z.array(
      z.object({
        ...all(rowId, 'id', 'integration_id'),
        type: z.string().nullable(),
        status: z.string(),
        created_at: moment,
      }),
    ),
    ...all(z.int(), 'searched', 'too_large'),
    since: moment,
    cut: z.string().nullable().describe('Why the search ended before its window did; null: it did not.'),
  }),
  routes: [{ method: 'get', path: '/payloads' }],
  async run({ integrations }, { contains, integration, ...search }) {
    if (integration !== undefined) await integrations.get(integration)
    const found = await integrations.admin.searchPayloads({
      ...search,
      contains: contains.json as Json,
      integrationId: integration,
    })
    const { data, cut, ...rest } = columns(found)
    return { data: data.map(columns), ...rest, cut: cut === null ? null : CUT[cut] }
  },
  show: ({ data, searched, cut }) =>
    [
      data.length === 0
        ? 'Nothing found.'
        : table(
            ['ID', 'Integration', 'Type', 'Status', 'Created'],
            data.map((each) => [each.id, each.integration_id, each.type, each.status, each.created_at]),
          ),
      `Looked through: ${searched}.${cut === null ? '' : ` Not all: ${cut}.`}`,
    ].join('\n'),
})
