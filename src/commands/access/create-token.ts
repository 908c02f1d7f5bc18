import { z } from 'zod'
import { SCOPES } from '../../access/rules.ts'
import { columns, command, fieldLines } from '../command.ts'
import { choice, instant, optional, owner, provider, text } from '../fields.ts'
import { TokenRow } from '../shapes.ts'

export const createToken = command({
  name: 'create-token',
  topic: 'Access',
  summary: 'Makes an operator token, and shows it this once.',
  examples: [
    'integrations create-token grafana --scope read',
    'integrations create-token acme-support --scope operate --owner team:7 --expires-at 2031-06-01T12:00:00Z',
  ],
  places: ['name'],
  workflow: { none: 'its result is a secret; a workflow history is kept for days, and many can read it' },
  fields: {
    name: text('who acts with it; 1 to 64 characters, no colon', 'text', 64),
    scope: choice('read: looks only; operate: changes, too', SCOPES, 'scope'),
    provider: optional(provider('sees and changes nothing of another provider')),
    owner: optional(owner('sees and changes nothing of another owner')),
    expiresAt: optional(instant('when it ends; default never')),
  },
  output: TokenRow.extend({ token: z.string().describe('Shown this once: only a hash of it is kept') }),
  routes: [{ method: 'post', path: '/tokens', status: 201 }],
  run: async ({ integrations, by, from }, given) =>
    columns(await integrations.admin.tokens.create({ ...given, by, from })),
  show: ({ token, ...row }) => `${token}\nThis is shown once: keep it where its user finds it.\n\n${fieldLines(row)}`,
})
