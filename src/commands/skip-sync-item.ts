import type { Command } from 'commander'
import { syncItemId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations skip-sync-item <id>`: gives a failed item up for good. */
export function skipSyncItemCommand(frame: Frame): Command {
  return frame
    .command('skip-sync-item', 'Gives a failed sync item up for good, so that the cursor can go on.', [
      'integrations skip-sync-item 4711',
    ])
    .argument('<id>', 'id of the item, as `list-failed-items` has it', syncItemId)
    .action(
      frame.action(async ({ integrations, by }, id: number) => {
        const { integrationId, cursorMoved, reducerThrew } = await integrations.admin.syncItems.skip(id)
        await integrations.admin.operator.note(integrationId, { token: by, action: 'skip', target: `sync-item:${id}` })
        return {
          document: {
            item_id: id,
            integration_id: integrationId,
            cursor_moved: cursorMoved,
            reducer_threw: reducerThrew,
          },
          text: `Skipped sync item ${id}; ${cursorText(integrationId, cursorMoved, reducerThrew)}`,
        }
      }),
    )
}

function cursorText(integrationId: number, moved: boolean, reducerThrew: string | null): string {
  if (moved) return 'the cursor has moved.'
  if (reducerThrew === null) return 'the cursor stays: others hold it, or there is nothing to move it to.'
  return `the cursor stays, since the provider's reduceCheckpoints() threw: ${reducerThrew}. Mend the provider, then \`integrations advance-cursor ${integrationId}\`.`
}
