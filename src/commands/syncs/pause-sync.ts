import { z } from 'zod'
import { streamOption } from '../../syncs/stream-rules.ts'
import { command, route } from '../command.ts'
import { id, stream } from '../fields.ts'
import { rowId, streamName } from '../shapes.ts'
import { notedStreams } from './noted-streams.ts'
import { progressOfAllAt } from './sync-progress.ts'

const fields = { id: id('of the integration'), stream: stream() }

export const pauseSync = command({
  name: 'pause-sync',
  topic: 'Syncs',
  summary: 'Holds the sync run of an integration; without one, keeps one from starting.',
  examples: ['integrations pause-sync 7', 'integrations pause-sync 7 --stream contacts'],
  places: ['id'],
  fields,
  reach: 'integration',
  output: z.object({ integration_id: rowId, stream: streamName, paused: z.literal(true) }),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/pause',
      fields,
      status: 202,
      location: progressOfAllAt,
    }),
  ],
  async run(context, { id, stream }) {
    await notedStreams(context, { id, stream }, 'pause', (onEach) =>
      context.integrations.syncs.pause(id, { stream, onEach }),
    )
    return { integration_id: id, stream: stream ?? null, paused: true }
  },
  show: ({ integration_id: of, stream }) =>
    `Paused: items that run are finished, nothing new is taken in. \`integrations resume-sync ${of}${streamOption(stream)}\` goes on.`,
})
