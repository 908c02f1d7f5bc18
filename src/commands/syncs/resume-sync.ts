import { z } from 'zod'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { id } from '../fields.ts'
import { Refused } from '../refused.ts'
import { rowId } from '../shapes.ts'

const fields = { id: id('of the integration') }

export const resumeSync = command({
  name: 'resume-sync',
  topic: 'Syncs',
  summary: 'Ends the pause of a sync run.',
  examples: ['integrations resume-sync 7'],
  places: ['id'],
  fields,
  reach: 'integration',
  output: z.object({ integration_id: rowId, resumed: z.boolean() }),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/resume',
      fields,
      status: 202,
      location: ({ id }) => `/integrations/${id}/sync`,
      async run(context, input) {
        const result = await resume(context, input)
        if (!result.resumed) throw new Refused('not_running', 'No sync run of this integration lives.')
        return result
      },
    }),
  ],
  run: resume,
  show: ({ resumed }) => (resumed ? 'Resumed' : 'Nothing to resume: no run lives.'),
})

async function resume({ integrations, note }: CommandContext, { id }: { readonly id: number }) {
  const resumed = (await integrations.syncs.resume(id)) === 'resumed'
  if (resumed) await note(id, 'resume')
  return { integration_id: id, resumed }
}
