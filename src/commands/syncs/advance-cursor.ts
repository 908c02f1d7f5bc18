import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { flag, id, json, optional, whole } from '../fields.ts'
import { Refused } from '../refused.ts'
import { AdvancedCursor, ChangedCursor, rowId } from '../shapes.ts'

const integration = id('of the integration')
const force = flag('end a living sync run first')

export const advanceCursor = command({
  name: 'advance-cursor',
  topic: 'Syncs',
  summary: 'Finalises runs that are done but were not finalised, and moves the cursor; or sets the cursor.',
  examples: [
    'integrations advance-cursor 7',
    'integrations advance-cursor 7 --reclaim-stale --limit 20',
    `integrations advance-cursor 7 --to '"2031-06-01T12:00:00Z"'`,
    'integrations advance-cursor 7 --reset --force',
  ],
  places: ['id'],
  workflow: 'own',
  fields: {
    id: integration,
    reclaimStale: flag('fail items first that were in flight for too long'),
    limit: optional(whole('the most runs to look at, the newest first; default 100')),
    to: optional(json('set the cursor to this, whatever the runs say')),
    reset: flag('set it to null: the next run lists everything'),
    force: { ...force, about: 'with --to and --reset: end a living sync run first' },
  },
  reach: 'integration',
  output: z.union([AdvancedCursor.extend({ integration_id: rowId }), ChangedCursor]),
  routes: [
    route({
      method: 'put',
      path: '/integrations/:id/cursor',
      summary: 'Sets the cursor of an integration; null: its next run lists everything.',
      fields: { id: integration, cursor: json('the checkpoint to go on from, or null'), force },
      output: ChangedCursor,
      run: (context, { id, cursor, force }) => set(context, id, cursor.json, force),
    }),
    route({
      method: 'delete',
      path: '/integrations/:id/cursor',
      summary: 'Resets the cursor of an integration: its next run lists everything.',
      fields: { id: integration, force },
      output: ChangedCursor,
      run: (context, { id, force }) => set(context, id, null, force),
    }),
  ],
  check({ reclaimStale, limit, to, reset, force }) {
    if (to !== undefined && reset) throw new Refused('usage', 'Give --to or --reset, not both.')
    const sets = to !== undefined || reset
    if (!sets && force) throw new Refused('usage', '--force goes with --to or --reset, neither was given.')
    const other = reclaimStale ? '--reclaim-stale' : limit === undefined ? null : '--limit'
    if (sets && other !== null)
      throw new Refused('usage', `${other} goes without --to and --reset: they set the cursor and look at no run.`)
  },
  run: (context, { id, to, reset, force, ...input }) =>
    to === undefined && !reset
      ? advance(context, id, input)
      : set(context, id, to === undefined ? null : to.json, force),
  show(result) {
    const change = `ursor ${JSON.stringify(result.from)} to ${JSON.stringify(result.to)}`
    if (!('runs' in result)) return `C${change}`
    const { runs, reclaimed } = result
    return [
      ...(reclaimed > 0 ? [`Failed ${reclaimed === 1 ? '1 item' : `${reclaimed} items`} as abandoned.`] : []),
      `${runs === 1 ? '1 run' : `${runs} runs`}, c${change}`,
    ].join('\n')
  },
})

type Change = Awaited<ReturnType<Integrations['syncs']['setCursor']>>
type Document = { readonly integration_id: number } & (
  | Change
  | Awaited<ReturnType<Integrations['syncs']['advanceCursor']>>
)

async function advance(
  { integrations, note }: CommandContext,
  id: number,
  { reclaimStale, limit }: { readonly reclaimStale: boolean; readonly limit: number | undefined },
): Promise<Document> {
  const input = { integrationId: id, reclaimStale, ...(limit === undefined ? {} : { limit }) }
  const result = await integrations.syncs.advanceCursor(input).catch(async (error: unknown) => {
    // Older runs, or abandoned items, may have been changed before the one that stands in the way.
    if (isIntegrationsError(error, 'checkpoints_not_reduced')) await note(id, 'advance-cursor')
    throw error
  })
  const { runs, from, to, reclaimed } = result
  if (runs > 0 || reclaimed > 0 || JSON.stringify(from) !== JSON.stringify(to)) await note(id, 'advance-cursor')
  return { integration_id: id, ...result }
}

async function set(
  { integrations, note }: CommandContext,
  id: number,
  cursor: Parameters<Integrations['syncs']['setCursor']>[1],
  force: boolean,
): Promise<Document> {
  const change = await integrations.syncs.setCursor(id, cursor, { force })
  await note(id, cursor === null ? 'cursor reset' : 'cursor set')
  return { integration_id: id, ...change }
}
