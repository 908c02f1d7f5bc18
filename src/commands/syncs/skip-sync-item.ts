import { z } from 'zod'
import { streamOption } from '../../syncs/stream-rules.ts'
import { columns, command } from '../command.ts'
import { id } from '../fields.ts'
import { all, rowId } from '../shapes.ts'

export const skipSyncItem = command({
  name: 'skip-sync-item',
  topic: 'Syncs',
  summary: 'Gives a failed sync item up for good, so that the cursor can go on.',
  examples: ['integrations skip-sync-item 4711'],
  places: ['id'],
  workflow: 'own',
  fields: { id: id('of the item, as `list-failed-items` has it') },
  reach: 'sync-item',
  output: z.object({
    ...all(rowId, 'item_id', 'integration_id'),
    stream: z.string().nullable(),
    cursor_moved: z.boolean(),
    /** What the provider's `reduceCheckpoints()` threw, so that the cursor stays. */
    reducer_threw: z.string().nullable(),
  }),
  routes: [{ method: 'post', path: '/sync-items/:id/skip' }],
  async run({ integrations, note }, { id }) {
    const skipped = await integrations.admin.syncItems.skip(id)
    await note(skipped.integrationId, 'skip', `sync-item:${id}`)
    return columns(skipped)
  },
  show({ item_id: id, integration_id: of, stream, cursor_moved: moved, reducer_threw: threw }) {
    if (moved) return `Skipped sync item ${id}; the cursor has moved.`
    if (threw === null)
      return `Skipped sync item ${id}; the cursor stays: others hold it, or there is nothing to move it to.`
    return `Skipped sync item ${id}; the cursor stays, since the provider's reduceCheckpoints() threw: ${threw}. Mend the provider, then \`integrations advance-cursor ${of}${streamOption(stream)}\`.`
  },
})
