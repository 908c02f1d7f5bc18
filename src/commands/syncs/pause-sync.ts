import { z } from 'zod'
import { command, route } from '../command.ts'
import { id } from '../fields.ts'
import { rowId } from '../shapes.ts'

const fields = { id: id('of the integration') }

export const pauseSync = command({
  name: 'pause-sync',
  topic: 'Syncs',
  summary: 'Holds the sync run of an integration; without one, keeps one from starting.',
  examples: ['integrations pause-sync 7'],
  places: ['id'],
  fields,
  reach: 'integration',
  output: z.object({ integration_id: rowId, paused: z.literal(true) }),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/pause',
      fields,
      status: 202,
      location: ({ id }) => `/integrations/${id}/sync`,
    }),
  ],
  async run({ integrations, note }, { id }) {
    await integrations.syncs.pause(id)
    await note(id, 'pause')
    return { integration_id: id, paused: true }
  },
  show: ({ integration_id: of }) =>
    `Paused: items that run are finished, nothing new is taken in. \`integrations resume-sync ${of}\` goes on.`,
})
