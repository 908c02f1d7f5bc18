import type { CommandContext } from '../command.ts'
import { columns, command, fieldLines, route } from '../command.ts'
import { flag, id } from '../fields.ts'
import { anything, SyncItemRow } from '../shapes.ts'

export const showSyncItem = command({
  name: 'show-sync-item',
  topic: 'Syncs',
  summary: 'Shows one sync item; what was listed only on request.',
  examples: ['integrations show-sync-item 4711', 'integrations show-sync-item 4711 --payload --json'],
  places: ['id'],
  workflow: { none: 'an item holds what a provider listed, which must not be copied into a history' },
  fields: {
    id: id('of the item, as `list-sync-items` has it'),
    payload: flag('show its payload and its checkpoint, too, without secrets'),
  },
  reach: 'sync-item',
  output: SyncItemRow,
  routes: [
    route({
      method: 'get',
      path: '/sync-items/:id',
      summary: 'Shows one sync item with what was listed, without secrets.',
      fields: { id: id('of the item') },
      output: SyncItemRow.extend({ payload: anything, checkpoint_value: anything }),
      run: item,
    }),
  ],
  async run(context, { id, payload: wanted }) {
    const { payload, checkpoint_value, ...row } = await item(context, { id })
    return { ...row, ...(wanted ? { payload, checkpoint_value } : {}) }
  },
  show: (item) => fieldLines({ ...item, status: shownStatus(item) }),
})

/** The row of an item between two attempts says `processing`; people read `waiting`, as everywhere else. */
export const shownStatus = (item: Record<string, unknown>): unknown =>
  (item.next_attempt_at ?? null) === null ? item.status : 'waiting'

async function item({ integrations }: CommandContext, { id }: { readonly id: number }) {
  return columns(await integrations.admin.operator.syncItem(id))
}
