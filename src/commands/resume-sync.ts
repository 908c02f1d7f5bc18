import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations resume-sync <id>`: ends a pause. */
export function resumeSyncCommand(frame: Frame): Command {
  return frame
    .command('resume-sync', 'Ends the pause of a sync run.', ['integrations resume-sync 7'])
    .argument('<id>', 'id of the integration', integrationId)
    .action(
      frame.action(async ({ integrations, by }, id: number) => {
        const isResumed = (await integrations.syncs.resume(id)) === 'resumed'
        if (isResumed)
          await integrations.admin.operator.note(id, { token: by, action: 'resume', target: `integration:${id}` })
        return {
          document: { integration_id: id, resumed: isResumed },
          text: isResumed ? 'Resumed' : 'Nothing to resume: no run lives.',
        }
      }),
    )
}
