import type { Command } from 'commander'
import { byWorker } from './cli/by-worker.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations recover-webhooks`: what the Schedule does every five minutes, now. */
export function recoverWebhooksCommand(frame: Frame): Command {
  return frame
    .command('recover-webhooks', 'Takes up webhooks that are stranded or due for another attempt.', [
      'integrations recover-webhooks',
      'integrations recover-webhooks --json',
    ])
    .action(
      frame.action(async (context) => {
        const found = await byWorker(context, context.integrations.webhooks.recover())
        const { processing, pending, failed, replaced = [] } = found
        const lines = [
          ...replaced.map(
            ({ workflow, attempts }) => `Replaced the workflow ${workflow}, whose task had failed ${attempts} times.`,
          ),
          processing > 0 && `Took up ${processing} that were processing for too long.`,
          pending > 0 && `Took up ${pending} that were pending for too long.`,
          failed > 0 && `Trying ${failed} again that had failed.`,
        ].filter((line) => line !== false)
        return {
          document: found,
          text: lines.length === 0 ? 'Nothing to recover.' : lines.join('\n'),
        }
      }),
    )
}
