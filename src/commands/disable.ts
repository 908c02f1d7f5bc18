import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'

/** `integrations disable <id>` */
export function disableCommand(frame: Frame): Command {
  return frame
    .command('disable', 'Switches an integration off: nothing scheduled starts, no webhook is taken.', [
      'integrations disable 7',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .action(frame.action(switchOff))
}

/** Also `integrations health <id> disable`. */
export async function switchOff({ integrations, by }: CommandContext, id: number): Promise<Outcome> {
  await integrations.disable(id)
  await integrations.admin.operator.note(id, { token: by, action: 'disable', target: `integration:${id}` })
  return { document: { id, is_active: false }, text: `Integration ${id} is switched off.` }
}
