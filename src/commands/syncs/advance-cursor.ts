import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import { streamOption } from '../../syncs/stream-rules.ts'
import type { Whose } from '../cli/watch-sync.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { flag, id, json, optional, stream, whole } from '../fields.ts'
import { Refused } from '../refused.ts'
import { AdvancedCursor, ChangedCursor, rowId, streamName } from '../shapes.ts'

const integration = id('of the integration')
const force = flag('end a living sync run first')

export const advanceCursor = command({
  name: 'advance-cursor',
  topic: 'Syncs',
  summary: 'Finalises runs that are done but were not finalised, and moves the cursor; or sets the cursor.',
  examples: [
    'integrations advance-cursor 7',
    'integrations advance-cursor 7 --reclaim-stale --limit 20',
    'integrations advance-cursor 7 --stream contacts',
    `integrations advance-cursor 7 --to '"2031-06-01T12:00:00Z"'`,
    'integrations advance-cursor 7 --reset --force',
  ],
  places: ['id'],
  workflow: 'own',
  fields: {
    id: integration,
    stream: stream(),
    reclaimStale: flag('fail items first that were in flight for too long'),
    limit: optional(whole('the most runs to look at, the newest first; default 100')),
    to: optional(json('set the cursor to this, whatever the runs say')),
    reset: flag('set it to null: the next run lists everything'),
    force: { ...force, about: 'with --to and --reset: end a living sync run first' },
  },
  reach: 'integration',
  output: z.union([AdvancedCursor.extend({ integration_id: rowId, stream: streamName }), ChangedCursor]),
  routes: [
    route({
      method: 'put',
      path: '/integrations/:id/cursor',
      summary: 'Sets the cursor of an integration; null: its next run lists everything.',
      fields: { id: integration, stream: stream(), cursor: json('the checkpoint to go on from, or null'), force },
      output: ChangedCursor,
      run: (context, { cursor, ...input }) => set(context, input, cursor.json),
    }),
    route({
      method: 'delete',
      path: '/integrations/:id/cursor',
      summary: 'Resets the cursor of an integration: its next run lists everything.',
      fields: { id: integration, stream: stream(), force },
      output: ChangedCursor,
      run: (context, input) => set(context, input, null),
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
  run: (context, { to, reset, ...input }) =>
    to === undefined && !reset ? advance(context, input) : set(context, input, to === undefined ? null : to.json),
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
type Document = { readonly integration_id: number; readonly stream: string | null } & (
  | Change
  | Awaited<ReturnType<Integrations['syncs']['advanceCursor']>>
)

async function advance(
  { integrations, note }: CommandContext,
  { id, stream, reclaimStale, limit }: Whose & { readonly reclaimStale: boolean; readonly limit: number | undefined },
): Promise<Document> {
  const input = { integrationId: id, stream, reclaimStale, ...(limit === undefined ? {} : { limit }) }
  const action = `advance-cursor${streamOption(stream)}`
  const result = await integrations.syncs.advanceCursor(input).catch(async (error: unknown) => {
    // Older runs, or abandoned items, may have been changed before the one that stands in the way.
    if (isIntegrationsError(error, 'checkpoints_not_reduced')) await note(id, action)
    throw error
  })
  const { runs, from, to, reclaimed } = result
  if (runs > 0 || reclaimed > 0 || JSON.stringify(from) !== JSON.stringify(to)) await note(id, action)
  return { integration_id: id, stream: stream ?? null, ...result }
}

async function set(
  { integrations, note }: CommandContext,
  { id, stream, force }: Whose & { readonly force: boolean },
  cursor: Parameters<Integrations['syncs']['setCursor']>[1],
): Promise<Document> {
  const change = await integrations.syncs.setCursor(id, cursor, { stream, force })
  await note(id, `${cursor === null ? 'cursor reset' : 'cursor set'}${streamOption(stream)}`)
  return { integration_id: id, stream: stream ?? null, ...change }
}
