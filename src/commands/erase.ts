import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import { confirmOrRefuse } from './cli/confirmation.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

/** `integrations erase <id>`: what was received and sent is blanked, counts and times stay. */
export function eraseCommand(frame: Frame): Command {
  return frame
    .command('erase', 'Blanks payloads, bodies, results and credentials of an integration; counts and times stay.', [
      'integrations erase 7',
      'integrations erase 7 --yes --json',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .option('--force', 'end a living sync run first', false)
    .option('--yes', 'do not ask', false)
    .action(
      frame.action(async (context, id: number, { yes, force }: { yes: boolean; force: boolean }) => {
        const { integrations, by } = context
        const { name, provider } = await integrations.get(id)
        await confirmOrRefuse(context, `Blank all that integration ${id} ("${name}", ${provider}) holds?`, yes)
        const erased = await integrations.admin.erase(id, { by, force })
        return {
          document: { id, erased },
          text: `Erased integration ${id}.\n${table(['Table', 'Rows'], Object.entries(erased))}`,
        }
      }),
    )
}
