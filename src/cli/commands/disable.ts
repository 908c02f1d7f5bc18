import type { Command } from 'commander'
import { integrationId } from '../arguments.ts'
import type { Frame } from '../frame.ts'

/** `integrations disable <id>` */
export function disableCommand(frame: Frame): Command {
  return frame
    .command('disable', 'Switches an integration off: nothing scheduled starts, no webhook is taken.', [
      'integrations disable 7',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .action(
      frame.action(async ({ integrations }, id: number) => {
        await integrations.disable(id)
        return { document: { id, is_active: false }, text: `Integration ${id} is switched off.` }
      }),
    )
}
