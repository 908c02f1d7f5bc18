import { z } from 'zod'
import { streamOption, syncWords } from '../../syncs/stream-rules.ts'
import { byWorker } from '../cli/by-worker.ts'
import type { Whose } from '../cli/watch-sync.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { id, stream } from '../fields.ts'
import { Refused } from '../refused.ts'
import { rowId, streamName } from '../shapes.ts'

const fields = { id: id('of the integration'), stream: stream() }

export const cancelSync = command({
  name: 'cancel-sync',
  topic: 'Syncs',
  summary: 'Ends the sync run of an integration; nothing of it moves the cursor.',
  examples: ['integrations cancel-sync 7', 'integrations cancel-sync 7 --stream contacts --yes'],
  places: ['id'],
  fields,
  needsWorker: true,
  reach: 'integration',
  output: z.object({ integration_id: rowId, stream: streamName, cancelled: z.boolean() }),
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
  async confirm({ integrations }, { id, stream }) {
    const { name, provider } = await integrations.get(id)
    return `Cancel the sync run of ${syncWords({ integrationId: id, stream })} ("${name}", ${provider})? Items that have not begun are dropped, those that wait for another attempt fail.`
  },
  run: cancel,
  show: ({ cancelled }) => (cancelled ? 'Cancelled' : 'Nothing to cancel: no run lives.'),
})

async function cancel(context: CommandContext, { id, stream }: Whose) {
  const cancelled = (await byWorker(context, context.integrations.syncs.cancel(id, { stream }))) === 'cancelled'
  if (cancelled) await context.note(id, `cancel${streamOption(stream)}`)
  return { integration_id: id, stream: stream ?? null, cancelled }
}
