import { z } from 'zod'
import { byWorker } from '../cli/by-worker.ts'
import { command } from '../command.ts'
import { all } from '../shapes.ts'

const Recovered = z.object({
  ...all(z.int(), 'processing', 'pending', 'failed'),
  replaced: z.array(z.object({ workflow: z.string(), attempts: z.int(), queue: z.string().optional() })).optional(),
})

/** What the Schedule does every five minutes, now. */
export const recoverWebhooks = command({
  name: 'recover-webhooks',
  topic: 'Webhooks',
  summary: 'Takes up webhooks that are stranded or due for another attempt.',
  examples: ['integrations recover-webhooks', 'integrations recover-webhooks --json'],
  workflow: 'own',
  needsWorker: true,
  fields: {},
  output: Recovered,
  run: (context) => byWorker(context, context.integrations.webhooks.recover()),
  show({ processing, pending, failed, replaced = [] }) {
    const lines = [
      ...replaced.map(({ workflow, attempts, queue }) =>
        queue === undefined
          ? `Replaced the workflow ${workflow}, whose task had failed ${attempts} times.`
          : `Replaced the workflow ${workflow}, whose task queue ${queue} no worker polled.`,
      ),
      processing > 0 && `Took up ${processing} that were processing for too long.`,
      pending > 0 && `Took up ${pending} that were pending for too long.`,
      failed > 0 && `Trying ${failed} again that had failed.`,
    ].filter((line) => line !== false)
    return lines.length === 0 ? 'Nothing to recover' : lines.join('\n')
  },
})
