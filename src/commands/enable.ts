import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'

/** `integrations enable <id>` */
export function enableCommand(frame: Frame): Command {
  return frame
    .command('enable', 'Switches an integration on: active, healthy, due at once if it is scheduled.', [
      'integrations enable 7',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .action(frame.action(switchOn))
}

/** Also `integrations health <id> enable`. */
export async function switchOn({ integrations, by }: CommandContext, id: number): Promise<Outcome> {
  await integrations.enable(id)
  await integrations.admin.operator.note(id, { token: by, action: 'enable', target: `integration:${id}` })
  return { document: { id, is_active: true }, text: `Integration ${id} is switched on.` }
}
