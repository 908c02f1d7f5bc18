import { columns, command } from '../command.ts'
import { id } from '../fields.ts'
import { TokenRow } from '../shapes.ts'

export const revokeToken = command({
  name: 'revoke-token',
  topic: 'Access',
  summary: 'Ends an operator token that was made at run time, and its sessions, at once.',
  examples: ['integrations revoke-token 3', 'integrations revoke-token 3 --yes'],
  places: ['id'],
  fields: { id: id('of the token') },
  output: TokenRow,
  routes: [{ method: 'delete', path: '/tokens/:id' }],
  async confirm({ integrations }, { id }) {
    for await (const token of integrations.admin.tokens.list({ after: id + 1, limit: 1 }))
      if (token.id === id && token.state === 'good')
        return `Revoke token ${id} ("${token.name}", ${token.scope})? Its user is refused from now on.`
    return null
  },
  run: async ({ integrations, by, from }, { id }) => columns(await integrations.admin.tokens.revoke(id, { by, from })),
  show: ({ id, name }) => `Token ${id} ("${name}") is revoked.`,
})
