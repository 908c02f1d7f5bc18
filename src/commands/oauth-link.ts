import type { Command } from 'commander'
import { integrationId, linkHours } from './cli/arguments.ts'
import { linkText, makeConnectLink } from './cli/connect-link.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations oauth-link <id>`: what a person opens to connect an integration, or to connect it again. */
export function oauthLinkCommand(frame: Frame): Command {
  return frame
    .command('oauth-link', 'Prints a link by which a person connects an integration to its provider.', [
      'integrations oauth-link 7',
      'integrations oauth-link 7 --hours 48 --json',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .option('--hours <n>', 'how long it opens, 1 to 168', linkHours, 1)
    .action(
      frame.action(async ({ integrations, by }, id: number, { hours }: { hours: number }) => {
        const integration = await integrations.get(id)
        const link = await makeConnectLink(integrations, integration, hours)
        // As the operator API: the link itself is in no row, since whoever has it may open it.
        await integrations.admin.operator.note(id, {
          token: by,
          action: 'oauth-link connect',
          target: `integration:${id}`,
        })
        const label = integrations.admin.providers().find(({ key }) => key === integration.provider)?.label
        return {
          document: { integration_id: id, connect_url: link.url, expires_at: link.expiresAt.toISOString() },
          text: `${linkText(link, label ?? integration.provider)}\nHow it stands: integrations oauth-status ${id}`,
        }
      }),
    )
}
