import { z } from 'zod'
import { FailureClass } from '../../calls/failure-class-rules.ts'
import { FAILURE_KINDS, waitingWords } from '../../failures/failure-rules.ts'
import { plain } from '../cli/plain.ts'
import { table } from '../cli/table.ts'
import { columns, command } from '../command.ts'
import { choice, optional, period, whole, whose, withDefault } from '../fields.ts'
import { all, moment, rowId } from '../shapes.ts'

/** What chooses failures, here and for `retry`. */
export const which = { ...whose, kind: optional(choice('only of this kind', FAILURE_KINDS)), ...period('failed') }

const Group = z.object({
  ...all(z.string(), 'group', 'error'),
  kind: z.enum(FAILURE_KINDS),
  failure_class: z.enum(Object.values(FailureClass)).nullable().describe('Of requests; null: of items and webhooks.'),
  ...all(z.int(), 'count', 'integrations'),
  ...all(moment, 'first_seen', 'last_seen'),
  example: z.object({ reference: z.string(), integration_id: rowId, error: z.string() }),
  retryable: z.boolean(),
})

export const failures = command({
  name: 'failures',
  topic: 'Trouble',
  summary:
    'Groups the failures of items, webhooks and calls by what went wrong; of the last 24 hours unless --since is given.',
  examples: [
    'integrations failures',
    'integrations failures --kind webhook --provider github --since 2031-06-01T12:00:00Z --json',
  ],
  fields: { ...which, limit: withDefault(whole('the most groups to list', { max: 500 }), 50) },
  reach: 'filtered',
  output: z.object({
    since: moment,
    data: z.array(Group),
    truncated: z.boolean(),
    more: z.boolean(),
    waiting: z
      .object({ count: z.int(), error: z.string().nullable(), truncated: z.boolean() })
      .nullable()
      .describe('Items that have failed and wait for their next try, now; null: another kind was asked for.'),
  }),
  routes: [{ method: 'get', path: '/failures' }],
  async run({ integrations, warn }, { integration, ...filter }) {
    if (integration !== undefined) await integrations.get(integration)
    const { groups, ...rest } = await integrations.admin.failures({ ...filter, integrationId: integration })
    if (rest.truncated) warn('There were more failures than are looked at: counts are lower bounds.')
    return { ...rest, data: groups.map(({ example, ...group }) => ({ ...columns(group), example: columns(example) })) }
  },
  show: ({ data, waiting }) =>
    [
      data.length === 0
        ? 'No failures.'
        : table(
            ['Group', 'Kind', 'Count', 'Integrations', 'Last seen', 'Example', 'Error'],
            data.map((each) => [
              each.group,
              each.failure_class === null ? each.kind : `${each.kind} (${each.failure_class})`,
              each.count,
              each.integrations,
              each.last_seen,
              each.example.reference,
              each.error,
            ]),
          ),
      ...(waiting === null || waiting.count === 0
        ? []
        : [`${plain(waitingWords(waiting))} integrations list-failed-items --waiting shows them.`]),
    ].join('\n'),
})
