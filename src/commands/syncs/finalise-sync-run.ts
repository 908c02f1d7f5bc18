import { command } from '../command.ts'
import { id } from '../fields.ts'
import { AdvancedCursor } from '../shapes.ts'

export const finaliseSyncRun = command({
  name: 'finalise-sync-run',
  topic: 'Syncs',
  summary: 'Finalises one sync run if its items are done and it was not finalised.',
  examples: ['integrations finalise-sync-run 4711'],
  places: ['id'],
  fields: { id: id('of the run, as `list-sync-runs` has it') },
  reach: 'sync-run',
  output: AdvancedCursor,
  routes: [{ method: 'post', path: '/sync-runs/:id/finalise' }],
  async run({ integrations, note }, { id }) {
    const { integrationId } = await integrations.syncs.run(id)
    const result = await integrations.syncs.finalise(id)
    const hasChanged = result.runs > 0 || JSON.stringify(result.from) !== JSON.stringify(result.to)
    if (hasChanged) await note(integrationId, 'finalise', `sync-run:${id}`)
    return result
  },
  show: ({ runs, from, to }) =>
    runs === 0
      ? 'Nothing to finalise: it is final, or items of it are not done. `integrations show-sync-run` says which.'
      : `Finalised, cursor ${JSON.stringify(from)} to ${JSON.stringify(to)}`,
})
