import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import { confirmOrRefuse } from './cli/confirmation.ts'
import type { Frame } from './cli/frame.ts'

interface Options {
  readonly force: boolean
  readonly yes: boolean
}

/** `integrations revoke-oauth <id>`: gives the access back. */
export function revokeOAuthCommand(frame: Frame): Command {
  return frame
    .command('revoke-oauth', "Revokes an integration's authorization at the provider, and deletes its tokens.", [
      'integrations revoke-oauth 7',
      'integrations revoke-oauth 7 --force --yes',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .option('--force', 'delete the tokens even if the provider refuses', false)
    .option('--yes', 'do not ask', false)
    .action(
      frame.action(async (context, id: number, { force, yes }: Options) => {
        const { integrations, by, progress } = context
        const { name, provider } = await integrations.get(id)
        await confirmOrRefuse(
          context,
          `Revoke the authorization of integration ${id} ("${name}", ${provider})? It can't call its provider until a person connects it again.`,
          yes,
        )
        progress('Asking the provider ...')
        const outcome = await integrations.oauth.revoke(id, { force })
        const revoked = outcome === 'revoked'
        if (revoked)
          await integrations.admin.operator.note(id, { token: by, action: 'revoke-oauth', target: `integration:${id}` })
        const texts = {
          revoked: `Revoked: the tokens of integration ${id} are deleted. \`integrations oauth-link ${id}\` connects it again.`,
          'nothing to revoke': `Integration ${id} has no tokens: there is nothing to revoke.`,
          'newer tokens kept': `Integration ${id} was authorized again meanwhile: its new tokens stay, and can be revoked by the same command.`,
        }
        return { document: { integration_id: id, revoked }, text: texts[outcome] }
      }),
    )
}
