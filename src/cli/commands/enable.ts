import type { Command } from 'commander'
import { integrationId } from '../arguments.ts'
import type { Frame } from '../frame.ts'

/** `integrations enable <id>` */
export function enableCommand(frame: Frame): Command {
  return frame
    .command('enable', 'Switches an integration on: active, healthy, due at once if it is scheduled.', [
      'integrations enable 7',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .action(
      frame.action(async ({ integrations }, id: number) => {
        await integrations.enable(id)
        return { document: { id, is_active: true }, text: `Integration ${id} is switched on.` }
      }),
    )
}
