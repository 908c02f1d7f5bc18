import { z } from 'zod'
import { command } from '../command.ts'
import { flag, id } from '../fields.ts'
import { rowId } from '../shapes.ts'

export const revokeOAuth = command({
  name: 'revoke-oauth',
  topic: 'OAuth',
  summary: "Revokes an integration's authorization at the provider, and deletes its tokens.",
  examples: ['integrations revoke-oauth 7', 'integrations revoke-oauth 7 --force --yes'],
  places: ['id'],
  fields: { id: id('of the integration'), force: flag('delete the tokens even if the provider refuses') },
  reach: 'integration',
  output: z.object({
    integration_id: rowId,
    revoked: z.boolean(),
    outcome: z.enum(['revoked', 'nothing to revoke', 'newer tokens kept']),
  }),
  routes: [{ method: 'post', path: '/integrations/:id/oauth/revoke', inQuery: true }],
  async confirm({ integrations }, { id }) {
    const { name, provider } = await integrations.get(id)
    return `Revoke the authorization of integration ${id} ("${name}", ${provider})? It can't call its provider until a person connects it again.`
  },
  async run({ integrations, note, progress }, { id, force }) {
    progress('Asking the provider ...')
    const outcome = await integrations.oauth.revoke(id, { force })
    const revoked = outcome === 'revoked'
    if (revoked) await note(id, 'revoke-oauth')
    return { integration_id: id, revoked, outcome }
  },
  show: ({ integration_id: id, outcome }) =>
    ({
      revoked: `Revoked: the tokens of integration ${id} are deleted. \`integrations oauth-link ${id}\` connects it again.`,
      'nothing to revoke': `Integration ${id} has no tokens: there is nothing to revoke.`,
      'newer tokens kept': `Integration ${id} was authorized again meanwhile: its new tokens stay, and can be revoked by the same command.`,
    })[outcome],
})
