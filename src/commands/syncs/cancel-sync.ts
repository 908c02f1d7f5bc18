import { z } from 'zod'
import { byWorker } from '../cli/by-worker.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { id } from '../fields.ts'
import { Refused } from '../refused.ts'
import { rowId } from '../shapes.ts'

const fields = { id: id('of the integration') }

export const cancelSync = command({
  name: 'cancel-sync',
  topic: 'Syncs',
  summary: 'Ends the sync run of an integration; nothing of it moves the cursor.',
  examples: ['integrations cancel-sync 7', 'integrations cancel-sync 7 --yes'],
  places: ['id'],
  fields,
  needsWorker: true,
  reach: 'integration',
  output: z.object({ integration_id: rowId, cancelled: z.boolean() }),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/cancel',
      fields,
      async run(context, input) {
        const result = await cancel(context, input)
        if (!result.cancelled) throw new Refused('not_running', 'No sync run of this integration lives.')
        return result
      },
    }),
  ],
  async confirm({ integrations }, { id }) {
    const { name, provider } = await integrations.get(id)
    return `Cancel the sync run of integration ${id} ("${name}", ${provider})? Items that have not begun are dropped, those that wait for another attempt fail.`
  },
  run: cancel,
  show: ({ cancelled }) => (cancelled ? 'Cancelled' : 'Nothing to cancel: no run lives.'),
})

async function cancel(context: CommandContext, { id }: { readonly id: number }) {
  const cancelled = (await byWorker(context, context.integrations.syncs.cancel(id))) === 'cancelled'
  if (cancelled) await context.note(id, 'cancel')
  return { integration_id: id, cancelled }
}
