import type { Command } from 'commander'
import { integrationId } from '../arguments.ts'
import type { Frame } from '../frame.ts'

/** `integrations sync --integration N`: starts a run now, due or not. */
export function syncCommand(frame: Frame): Command {
  return frame
    .command('sync', 'Starts a sync run of one integration now, due or not.', ['integrations sync --integration 7'])
    .requiredOption('--integration <id>', 'id of the integration', integrationId)
    .action(
      frame.action(async ({ integrations }, { integration: id }: { integration: number }) => {
        await integrations.get(id)
        const started = (await integrations.syncs.start(id)) === 'started'
        return {
          document: { integration_id: id, started: started ? 1 : 0, already_running: !started },
          text: started ? 'Started 1' : 'Already running',
        }
      }),
    )
}
