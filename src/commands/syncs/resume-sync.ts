import { z } from 'zod'
import type { Whose } from '../cli/watch-sync.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { id, stream } from '../fields.ts'
import { Refused } from '../refused.ts'
import { rowId, streamName } from '../shapes.ts'
import { notedStreams } from './noted-streams.ts'
import { progressOfAllAt } from './sync-progress.ts'

const fields = { id: id('of the integration'), stream: stream() }

export const resumeSync = command({
  name: 'resume-sync',
  topic: 'Syncs',
  summary: 'Ends the pause of a sync run.',
  examples: ['integrations resume-sync 7', 'integrations resume-sync 7 --stream contacts'],
  places: ['id'],
  fields,
  reach: 'integration',
  output: z.object({ integration_id: rowId, stream: streamName, resumed: z.boolean() }),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/resume',
      fields,
      status: 202,
      location: progressOfAllAt,
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

async function resume(context: CommandContext, { id, stream }: Whose) {
  const outcome = await notedStreams(context, { id, stream }, 'resume', (onEach) =>
    context.integrations.syncs.resume(id, { stream, onEach }),
  )
  const resumed = outcome === 'resumed'
  return { integration_id: id, stream: stream ?? null, resumed }
}
