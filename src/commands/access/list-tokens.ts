import { choice, optional, owner, provider } from '../fields.ts'
import { listing } from '../listing.ts'
import { TOKEN_STATES, TokenRow } from '../shapes.ts'

export const listTokens = listing({
  name: 'list-tokens',
  topic: 'Access',
  summary: 'Lists the operator tokens that were made at run time, the newest first; never the tokens themselves.',
  examples: ['integrations list-tokens --state good', 'integrations list-tokens --provider acme --json'],
  fields: {
    state: optional(choice('only of this state', TOKEN_STATES, 'state')),
    provider: optional(provider('only those limited to this provider')),
    owner: optional(owner('only those limited to this owner')),
  },
  path: '/tokens',
  // A limited token does not learn of others.
  reach: 'all',
  row: TokenRow,
  shows: {
    ID: 'id',
    Name: 'name',
    Scope: 'scope',
    Provider: 'provider',
    Owner: ({ owner }) => ownerText(owner as { type: string; id: number } | null),
    State: 'state',
    Expires: 'expires_at',
    'Last used': 'last_used_at',
    'Created by': 'created_by',
  },
  none: 'No tokens.',
  list: ({ integrations }, filter) => integrations.admin.tokens.list(filter),
})

const ownerText = (owner: { readonly type: string; readonly id: number } | null): string | null =>
  owner === null ? null : `${owner.type}:${owner.id}`
