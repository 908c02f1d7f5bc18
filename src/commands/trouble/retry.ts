import { z } from 'zod'
import { columns, command } from '../command.ts'
import { flag, optional, text, whole } from '../fields.ts'
import { rowId } from '../shapes.ts'
import { waits } from '../webhooks/many-webhooks.ts'
import { which } from './failures.ts'

const kind = z.enum(['item', 'webhook'])
const waiting = z.int().describe('webhooks whose integration is disabled by its health')
const Preview = z.looseObject({
  group: z.string(),
  kind,
  count: z.int(),
  ids: z.array(rowId),
  integrations: z.int(),
  waiting,
  left_out: z.int(),
})
const Retried = z.object({
  group: z.string(),
  kind,
  retried: z.array(rowId),
  refused: z.array(z.object({ id: rowId, code: z.string(), message: z.string() })),
  stopped: z.string().nullable(),
  waiting,
  left_out: z.int(),
  more: z.boolean(),
})

export const retry = command({
  name: 'retry',
  topic: 'Trouble',
  summary: 'Retries the items or replays the webhooks of a group of failures, the oldest first.',
  examples: [
    'integrations retry --group 3f2a9c01d4e7 --dry-run',
    'integrations retry --group 3f2a9c01d4e7 --limit 500 --yes',
  ],
  fields: {
    group: text('as `failures` names it', 'group'),
    ...which,
    limit: optional(whole('the most rows to try; default 100', { max: 1_000 })),
    dryRun: flag('only say what would be tried'),
  },
  reach: 'filtered',
  output: z.union([Retried, Preview]),
  routes: [{ method: 'post', path: '/failures/retry' }],
  async confirm({ integrations }, given) {
    const { group, integration, dryRun, ...filter } = given
    if (dryRun) return null
    const { count, kind, error, leftOut, more, ...of } = await integrations.admin.previewRetryGroup(group, {
      ...filter,
      integrationId: integration,
    })
    if (count === 0) return null
    const question = `Try ${more ? 'the first ' : ''}${count} ${kind}s of ${of.integrations} integrations again that failed with "${error}"?${waits(of)}`
    return { question: [...leftOutWords(leftOut), question].join(' '), agreed: { ...given, limit: count } }
  },
  async run({ integrations, by, from }, { group, integration, dryRun, ...filter }) {
    const chosen = { ...filter, integrationId: integration }
    return dryRun
      ? columns(await integrations.admin.previewRetryGroup(group, chosen))
      : columns(await integrations.admin.retryGroup(group, { ...chosen, by, from }))
  },
  show: (told) =>
    'retried' in told
      ? [
          `Tried again: ${told.retried.length}.${waits(told)}`,
          ...told.refused.map(({ id, message }) => `Not ${id}: ${message}`),
          ...(told.stopped === null ? [] : [`Broken off: ${told.stopped}`, 'The same call again does the rest.']),
          ...leftOutWords(told.left_out),
          ...(told.more ? ['The group has more than the limit: 100, or what is given, 1,000 at most.'] : []),
        ].join('\n')
      : [
          told.count === 0
            ? 'None would be tried again.'
            : `${told.count} would be tried again: ${told.ids.join(', ')}${told.count > told.ids.length ? ', …' : ''}.${waits(told)}`,
          ...leftOutWords(told.left_out),
        ].join('\n'),
  hasFailed: (told) => 'retried' in told && (told.refused.length > 0 || told.stopped !== null),
})

/** None, where nothing is left out. */
function leftOutWords(rows: number): string[] {
  return rows === 0 ? [] : [`Left out: ${rows}. Their payload is gone, or, of items, a later run has a newer copy.`]
}
