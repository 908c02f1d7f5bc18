import { z } from 'zod'
import { isIntegrationsError } from '../../framework/errors.ts'
import { byWorker } from '../cli/by-worker.ts'
import { unlessInterrupted } from '../cli/create-frame.ts'
import { Interrupted } from '../cli/failure.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { flag, id, many, optional, whole, withDefault } from '../fields.ts'
import { Refused } from '../refused.ts'
import { all, rowId } from '../shapes.ts'

const options = {
  tries: withDefault(whole('attempts that each gets', { max: 1_000 }), 1),
  force: flag('also items with a newer copy in a later run: older data may be written over newer'),
}

const Retried = z.object({
  item_id: rowId,
  /** Null: it was not retried. */
  outcome: z.enum(['success', 'failed', 'tried now']).nullable(),
  ...all(z.string().nullable(), 'status', 'error'),
  attempts: z.int().nullable(),
})
type Retried = z.infer<typeof Retried>

export const retrySyncItem = command({
  name: 'retry-sync-item',
  topic: 'Syncs',
  summary: 'Runs the listeners of failed sync items again, one item after the other; those that wait, now.',
  examples: [
    'integrations retry-sync-item 4711',
    'integrations retry-sync-item 4711 4712 --tries 3',
    'integrations retry-sync-item --run 815',
    'integrations retry-sync-item 4711 --force',
  ],
  places: ['id'],
  needsWorker: true,
  workflow: 'own',
  stopsItself: true,
  fields: {
    id: optional(many(id('of the items, as `list-failed-items` has them'))),
    run: optional(id('all failed and all waiting items of this run, the oldest first')),
    ...options,
  },
  output: z.array(Retried),
  routes: [
    route({
      method: 'post',
      path: '/sync-items/:id/retry',
      summary: 'Starts a retry of a failed sync item, or has one that waits tried now.',
      fields: { id: id('of the item'), ...options },
      reach: 'sync-item',
      status: 202,
      output: z.object({ item_id: rowId, workflow_id: z.string() }),
      location: ({ id }) => `/sync-items/${id}`,
      async run({ integrations, note }, { id, ...retry }) {
        const { itemId, integrationId, workflowId } = await integrations.admin.syncItems.startRetry(id, retry)
        await note(integrationId, 'retry', `sync-item:${itemId}`)
        return { item_id: itemId, workflow_id: workflowId }
      },
    }),
  ],
  check({ id: ids, run }) {
    if (run !== undefined && ids !== undefined)
      throw new Refused('usage', `Give ids or --run, not both: ${ids.join(', ')} and --run ${run} were given.`)
    if (run === undefined && ids === undefined)
      throw new Refused('usage', 'Give the ids of failed or waiting items, or all of a run by --run.')
  },
  async run(context, { id: ids, run, ...retry }) {
    const done: Retried[] = []
    try {
      for (const id of ids ?? (run === undefined ? [] : await itemsOf(context, run, retry.force))) {
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
    return done
  },
  show: (done) => (done.length === 0 ? 'Nothing to retry.' : done.map(textOf).join('\n')),
  hasFailed: (done) => done.some(({ outcome }) => outcome !== 'success' && outcome !== 'tried now'),
})

/**
 * The failed ones and those that wait for another attempt. Unless forced, failed ones that a later run made up for are left out: nothing
 * is to be done about them.
 */
async function itemsOf({ integrations, warn }: CommandContext, run: number, force: boolean): Promise<number[]> {
  await integrations.syncs.run(run)
  const ids: number[] = []
  let madeUpFor = 0
  for await (const { id, madeUpForBy } of integrations.admin.syncItems.list({ syncLogId: run, status: 'failed' }))
    if (madeUpForBy === null || force) ids.push(id)
    else madeUpFor += 1
  for await (const { id } of integrations.admin.syncItems.list({ syncLogId: run, waiting: true })) ids.push(id)
  if (madeUpFor > 0)
    warn(`${madeUpFor} are left out: a later run made up for them, and a retry would write older data over newer.`)
  return ids.sort((a, b) => a - b)
}

/** One that can't be retried keeps none of the others from it. */
async function retryOne(
  context: CommandContext,
  id: number,
  retry: { readonly tries: number; readonly force: boolean },
): Promise<Retried> {
  const { syncItems } = context.integrations.admin
  try {
    const { integrationId } = await syncItems.get(id)
    const note = () => context.note(integrationId, 'retry', `sync-item:${id}`)
    const waiting = unlessInterrupted(context.signal, byWorker(context, syncItems.retry(id, retry)))
    const { outcome, status, attempts, error } = await waiting.catch(async (thrown: unknown) => {
      // The worker goes on with it.
      if (thrown instanceof Interrupted) await note()
      throw thrown
    })
    if (outcome === 'not failed' || outcome === 'outdated')
      return notRetried(id, status, `It is ${status ?? 'gone'} by now.`)
    await note()
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
