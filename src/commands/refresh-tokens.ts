import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import { byWorker } from './cli/by-worker.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

/** `integrations refresh-tokens [id]`: what the Schedule does every ten minutes, now; or one, however long its token is good for. */
export function refreshTokensCommand(frame: Frame): Command {
  return frame
    .command('refresh-tokens', 'Refreshes the OAuth tokens that are due, or those of one integration.', [
      'integrations refresh-tokens',
      'integrations refresh-tokens 7 --json',
    ])
    .argument('[id]', 'id of an integration: refreshes its tokens even if they are not due', integrationId)
    .action(
      frame.action(async (context, id: number | undefined) => {
        const { integrations, by, warn } = context
        // No worker is needed to say that there is none.
        if (id !== undefined) await integrations.get(id)
        const asked = id === undefined ? {} : { integrationId: id }
        const { checked, refreshed, failed, reauthRequired } = await byWorker(
          context,
          integrations.oauth.refresh(asked),
        )
        if (id !== undefined)
          await integrations.admin.operator.note(id, {
            token: by,
            action: 'refresh-tokens',
            target: `integration:${id}`,
          })
        if (failed > reauthRequired)
          warn(`${failed - reauthRequired} failed and will be tried again; the log of the worker says why.`)
        if (reauthRequired > 0)
          warn(
            `${reauthRequired} must be connected again by a person: \`integrations doctor\` names them, \`integrations oauth-link <id>\` prints a link.`,
          )
        const document = { checked, refreshed, failed, reauth_required: reauthRequired }
        return {
          document,
          text: checked === 0 ? 'Nothing to refresh.' : table(['Field', 'Value'], Object.entries(document)),
          exitCode: failed > 0 ? 1 : 0,
        }
      }),
    )
}
