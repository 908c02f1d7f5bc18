import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { integrationId, jsonValue, limit } from './cli/arguments.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { Refused } from './refused.ts'

type Json = Parameters<Integrations['syncs']['setCursor']>[1]

interface Options {
  readonly reclaimStale?: true
  readonly limit?: number
  readonly to?: { readonly json: Json }
  readonly reset?: true
  readonly force?: true
}

/** `integrations advance-cursor <id>`: finalises what nobody finalised, or sets the cursor. */
export function advanceCursorCommand(frame: Frame): Command {
  return frame
    .command('advance-cursor', 'Finalises runs that nobody finalised and moves the cursor; or sets it.', [
      'integrations advance-cursor 7',
      'integrations advance-cursor 7 --reclaim-stale --limit 20',
      `integrations advance-cursor 7 --to '"2031-06-01T12:00:00Z"'`,
      'integrations advance-cursor 7 --reset --force',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .option('--reclaim-stale', 'fail items first that were in flight for too long')
    .option('--limit <n>', 'look at so many runs, the newest first; default 100', limit)
    .option('--to <json>', 'set the cursor to this, whatever the runs say', jsonValue)
    .option('--reset', 'set it to null: the next run lists everything')
    .option('--force', 'with --to and --reset: end a living sync run first')
    .action((id: number, options: Options, command: Command) => {
      const work = workOf(id, options)
      return frame.action(work)(command)
    })
}

/** @throws Refused for options that do not go together, before the host is loaded */
function workOf(id: number, { reclaimStale, limit, to, reset, force }: Options) {
  if (to !== undefined && reset) throw new Refused('usage', 'Give --to or --reset, not both.')
  if (to === undefined && !reset) {
    if (force) throw new Refused('usage', '--force goes with --to or --reset, neither was given.')
    return (context: CommandContext) => advance(context, id, { reclaimStale, limit })
  }
  const other = reclaimStale ? '--reclaim-stale' : limit === undefined ? null : '--limit'
  if (other !== null)
    throw new Refused('usage', `${other} goes without --to and --reset: they set the cursor and look at no run.`)
  return (context: CommandContext) => set(context, id, to === undefined ? null : to.json, force ?? false)
}

async function advance(
  { integrations, by }: CommandContext,
  id: number,
  { reclaimStale, limit }: { readonly reclaimStale: true | undefined; readonly limit: number | undefined },
): Promise<Outcome> {
  const noted = () =>
    integrations.admin.operator.note(id, { token: by, action: 'advance-cursor', target: `integration:${id}` })
  const { runs, from, to, reclaimed } = await integrations.syncs
    .advanceCursor({
      integrationId: id,
      reclaimStale: reclaimStale ?? false,
      ...(limit === undefined ? {} : { limit }),
    })
    .catch(async (error: unknown) => {
      // Older runs, or abandoned items, may have been changed before the one that stands in the way.
      if (isIntegrationsError(error, 'checkpoints_not_reduced')) await noted()
      throw error
    })
  const isChanged = runs > 0 || reclaimed > 0 || JSON.stringify(from) !== JSON.stringify(to)
  if (isChanged) await noted()
  return {
    document: { integration_id: id, runs, from, to, reclaimed },
    text: [
      ...(reclaimed > 0 ? [`Failed ${reclaimed === 1 ? '1 item' : `${reclaimed} items`} as abandoned.`] : []),
      `${runs === 1 ? '1 run' : `${runs} runs`}, cursor ${JSON.stringify(from)} to ${JSON.stringify(to)}`,
    ].join('\n'),
  }
}

async function set({ integrations, by }: CommandContext, id: number, cursor: Json, force: boolean): Promise<Outcome> {
  const { from, to } = await integrations.syncs.setCursor(id, cursor, { force })
  const action = cursor === null ? 'cursor reset' : 'cursor set'
  await integrations.admin.operator.note(id, { token: by, action, target: `integration:${id}` })
  return {
    document: { integration_id: id, from, to },
    text: `Cursor ${JSON.stringify(from)} to ${JSON.stringify(to)}`,
  }
}
