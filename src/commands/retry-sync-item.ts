import type { Command } from 'commander'
import { isIntegrationsError } from '../framework/errors.ts'
import { syncItemIds, syncRunId, tries } from './cli/arguments.ts'
import { byWorker } from './cli/by-worker.ts'
import { Interrupted } from './cli/failure.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { Refused } from './refused.ts'

const DEFAULT_TRIES = 1

interface Options {
  readonly run?: number
  readonly tries: number
  readonly force: boolean
}

/** `integrations retry-sync-item <id...>`: failed items again, one after the other. */
export function retrySyncItemCommand(frame: Frame): Command {
  return frame
    .command(
      'retry-sync-item',
      'Runs the listeners of failed sync items again, one item after the other; those that wait, now.',
      [
        'integrations retry-sync-item 4711',
        'integrations retry-sync-item 4711 4712 --tries 3',
        'integrations retry-sync-item --run 815',
        'integrations retry-sync-item 4711 --force',
      ],
    )
    .argument('[id...]', 'ids of the items, as `list-failed-items` has them', syncItemIds)
    .option('--run <id>', 'all failed items of this run, the oldest first', syncRunId)
    .option('--tries <n>', 'attempts that each gets', tries, DEFAULT_TRIES)
    .option('--force', 'also items with a newer copy in a later run: older data may be written over newer', false)
    .action((ids: readonly number[] | undefined, { run, tries, force }: Options, command: Command) => {
      if (run !== undefined && ids !== undefined && ids.length > 0)
        throw new Refused('usage', `Give ids or --run, not both: ${ids.join(', ')} and --run ${run} were given.`)
      if (run !== undefined)
        return frame.action(async (context) =>
          retryAll(context, await failedOf(context, run, force), { tries, force }),
        )(command)
      if (ids === undefined || ids.length === 0)
        throw new Refused('usage', 'Give the ids of failed items, or all of a run by --run.')
      return frame.action((context) => retryAll(context, ids, { tries, force }))(command)
    })
}

/** Unless forced, those that a later run made up for are left out: nothing is to be done about them. */
async function failedOf(
  { integrations, warn }: CommandContext,
  run: number,
  force: boolean,
): Promise<readonly number[]> {
  await integrations.syncs.run(run)
  const ids: number[] = []
  let madeUpFor = 0
  for await (const { id, madeUpForBy } of integrations.admin.syncItems.list({ syncLogId: run, status: 'failed' }))
    if (madeUpForBy === null || force) ids.push(id)
    else madeUpFor += 1
  if (madeUpFor > 0)
    warn(`${madeUpFor} are left out: a later run made up for them, and a retry would write older data over newer.`)
  return ids.reverse()
}

type Retry = Pick<Options, 'tries' | 'force'>

interface Retried {
  readonly item_id: number
  /** Null: it was not retried. */
  readonly outcome: 'success' | 'failed' | 'tried now' | null
  readonly status: string | null
  readonly attempts: number | null
  readonly error: string | null
}

async function retryAll(context: CommandContext, ids: readonly number[], retry: Retry): Promise<Outcome> {
  const done: Retried[] = []
  try {
    for (const id of ids) {
      // Ctrl-C between two: the next one is not begun.
      if (context.signal.aborted) throw new Interrupted()
      const retried = await retryOne(context, id, retry)
      done.push(retried)
      context.progress(textOf(retried))
    }
  } catch (error) {
    if (done.length > 0) context.warn(['Until then:', ...done.map(textOf)].join('\n'))
    throw error
  }
  return {
    document: done,
    text: done.length === 0 ? 'Nothing to retry.' : done.map(textOf).join('\n'),
    exitCode: done.every(({ outcome }) => outcome === 'success' || outcome === 'tried now') ? 0 : 1,
  }
}

/** One that can't be retried keeps none of the others from it. */
async function retryOne(context: CommandContext, id: number, retry: Retry): Promise<Retried> {
  const { integrations, by } = context
  try {
    const { integrationId } = await integrations.admin.syncItems.get(id)
    const result = await byWorker(context, integrations.admin.syncItems.retry(id, retry))
    if (result.outcome === 'not failed' || result.outcome === 'outdated')
      return notRetried(id, result.status, `It is ${result.status ?? 'gone'} by now.`)
    await integrations.admin.operator.note(integrationId, { token: by, action: 'retry', target: `sync-item:${id}` })
    const { outcome, status, attempts, error } = result
    return { item_id: id, outcome, status, attempts, error }
  } catch (error) {
    if (isIntegrationsError(error, 'sync_item_not_found')) return notRetried(id, null, error.message)
    if (isIntegrationsError(error, 'sync_item_not_failed') && 'status' in error)
      return notRetried(id, String(error.status), error.message)
    if (isIntegrationsError(error, 'sync_item_outdated')) return notRetried(id, 'failed', error.message)
    throw error
  }
}

const notRetried = (id: number, status: string | null, error: string): Retried => ({
  item_id: id,
  outcome: null,
  status,
  attempts: null,
  error,
})

function textOf({ item_id: id, outcome, attempts, error }: Retried): string {
  if (outcome === 'success') return `Sync item ${id}: success, in attempt ${attempts}.`
  if (outcome === 'tried now')
    return `Sync item ${id}: it waited for another attempt, which begins now. \`integrations list-failed-items --waiting\` shows it while it waits.`
  if (outcome === 'failed')
    return `Sync item ${id}: failed again, in attempt ${attempts}: ${error ?? 'no reason is known'}`
  return `Sync item ${id}: not retried. ${error ?? ''}`
}
