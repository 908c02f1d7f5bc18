import type { Command } from 'commander'
import { oauthStatusColumns } from '../oauth/status-rules.ts'
import { integrationId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

/** `integrations oauth-status <id>`: whether it is connected, and whether a person has to do something. */
export function oauthStatusCommand(frame: Frame): Command {
  return frame
    .command('oauth-status', "Shows how an integration's authorization stands; asks no provider.", [
      'integrations oauth-status 7',
      'integrations oauth-status 7 --json',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .action(
      frame.action(async ({ integrations }, id: number) => {
        const status = await integrations.oauth.status(id)
        const document = oauthStatusColumns(status)
        const isInOrder = !status.needsAuthorization || (status.isConnected && status.reauth === null)
        const todo = isInOrder
          ? ''
          : `\nA person has to connect it: integrations oauth-link ${id} prints a link for that.`
        return { document, text: `${table(['Field', 'Value'], Object.entries(document))}${todo}` }
      }),
    )
}
