import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import { confirmOrRefuse } from './cli/confirmation.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/frame.ts'

interface Options {
  readonly force: boolean
  readonly yes: boolean
}

/** `integrations delete <id>`: the row and all its rows. */
export function deleteCommand(frame: Frame): Command {
  return frame
    .command('delete', 'Deletes an integration and all its rows. Refused while a sync run of it lives.', [
      'integrations delete 7',
      'integrations delete 7 --force --yes',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .option('--force', 'end a living sync run first', false)
    .option('--yes', 'do not ask', false)
    .action(
      frame.action(async (context, id: number, { force, yes }: Options) => {
        const { integrations, by } = context
        const { name, provider } = await integrations.get(id)
        await confirmOrRefuse(context, `Delete integration ${id} ("${name}", ${provider}) and all its rows?`, yes)
        const deleted = await integrations.delete(id, { force, by })
        return {
          document: { id, deleted },
          text: `Deleted integration ${id}.\n${table(['Table', 'Rows'], Object.entries(deleted))}`,
        }
      }),
    )
}
