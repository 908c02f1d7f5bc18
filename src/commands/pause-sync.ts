import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations pause-sync <id>`: nothing new is taken in. */
export function pauseSyncCommand(frame: Frame): Command {
  return frame
    .command('pause-sync', 'Holds the sync run of an integration; without one, keeps one from starting.', [
      'integrations pause-sync 7',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .action(
      frame.action(async ({ integrations, by }, id: number) => {
        await integrations.syncs.pause(id)
        await integrations.admin.operator.note(id, { token: by, action: 'pause', target: `integration:${id}` })
        return {
          document: { integration_id: id, paused: true },
          text: `Paused: items that run are finished, nothing new is taken in. \`integrations resume-sync ${id}\` goes on.`,
        }
      }),
    )
}
