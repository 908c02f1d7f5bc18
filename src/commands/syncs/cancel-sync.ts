import { z } from 'zod'
import { streamOption, syncWords } from '../../syncs/stream-rules.ts'
import { byWorker } from '../cli/by-worker.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import type { Values } from '../fields.ts'
import { flag, id, stream } from '../fields.ts'
import { Refused } from '../refused.ts'
import { rowId, streamName } from '../shapes.ts'
import { notedStreams } from './noted-streams.ts'

const fields = {
  id: id('of the integration'),
  stream: stream(),
  forget: flag('forget as well what was asked for and has not begun: a run that follows, one that waits'),
}

export const cancelSync = command({
  name: 'cancel-sync',
  topic: 'Syncs',
  summary:
    'Ends the sync run of an integration; nothing of it moves the cursor. A run that was asked for meanwhile follows.',
  examples: [
    'integrations cancel-sync 7',
    'integrations cancel-sync 7 --stream contacts',
    'integrations cancel-sync 7 --forget --yes',
  ],
  places: ['id'],
  fields,
  needsWorker: true,
  reach: 'integration',
  output: z.object({ integration_id: rowId, stream: streamName, cancelled: z.boolean(), forgot: z.boolean() }),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/cancel',
      fields,
      async run(context, input) {
        const result = await cancel(context, input)
        if (!result.cancelled && !result.forgot)
          throw new Refused('not_running', 'No sync run of this integration lives.')
        return result
      },
    }),
  ],
  async confirm({ integrations }, { id, stream, forget }) {
    const { name, provider } = await integrations.get(id)
    return `Cancel the sync run of ${syncWords({ integrationId: id, stream })} ("${name}", ${provider})? Items that have not begun are dropped, those that wait for another attempt fail.${forget ? ' Runs that were asked for and have not begun are forgotten.' : ''}`
  },
  run: cancel,
  show: ({ cancelled, forgot }) =>
    `${cancelled ? 'Cancelled' : 'Nothing to cancel: no run lives.'}${forgot ? '\nForgotten: what was asked for and had not begun.' : ''}`,
})

async function cancel(context: CommandContext, { id, stream, forget }: Values<typeof fields>) {
  const { integrations, note } = context
  const isMeant = (start: { readonly stream: string }) => stream === undefined || start.stream === stream
  const forgot = forget && (await integrations.admin.operator.remembered(id)).some(isMeant)
  try {
    const outcome = await notedStreams(context, { id, stream }, 'cancel', (onEach) =>
      byWorker(context, integrations.syncs.cancel(id, { stream, forget, onEach })),
    )
    return { integration_id: id, stream: stream ?? null, cancelled: outcome === 'cancelled', forgot }
  } finally {
    // Forgotten first: also where the run's end could not be waited for.
    if (forgot) await note(id, `forget-start${streamOption(stream)}`)
  }
}
