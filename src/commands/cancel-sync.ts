import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import { byWorker } from './cli/by-worker.ts'
import { confirmOrRefuse } from './cli/confirmation.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations cancel-sync <id>`: ends the run. */
export function cancelSyncCommand(frame: Frame): Command {
  return frame
    .command('cancel-sync', 'Ends the sync run of an integration; nothing of it moves the cursor.', [
      'integrations cancel-sync 7',
      'integrations cancel-sync 7 --yes',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .option('--yes', 'do not ask', false)
    .action(
      frame.action(async (context, id: number, { yes }: { yes: boolean }) => {
        const { integrations, by } = context
        const { name, provider } = await integrations.get(id)
        await confirmOrRefuse(
          context,
          `Cancel the sync run of integration ${id} ("${name}", ${provider})? Items that have not begun are dropped, those that wait for another attempt fail.`,
          yes,
        )
        const isCancelled = (await byWorker(context, integrations.syncs.cancel(id))) === 'cancelled'
        if (isCancelled)
          await integrations.admin.operator.note(id, { token: by, action: 'cancel', target: `integration:${id}` })
        return {
          document: { integration_id: id, cancelled: isCancelled },
          text: isCancelled ? 'Cancelled' : 'Nothing to cancel: no run lives.',
        }
      }),
    )
}
