import { z } from 'zod'
import { oauthStatusColumns } from '../../oauth/status-rules.ts'
import { command, fieldLines } from '../command.ts'
import { id } from '../fields.ts'
import { all, moment, rowId } from '../shapes.ts'

const Status = z.object({
  integration_id: rowId,
  ...all(z.boolean(), 'needs_authorization', 'connected', 'has_refresh_token', 'reauth_required'),
  ...all(
    moment.nullable(),
    'token_expires_at',
    'reauth_since',
    'last_refreshed_at',
    'next_refresh_at',
    'failing_since',
  ),
  reauth_reason: z.string().nullable(),
  failures: z.int(),
})

export const oauthStatus = command({
  name: 'oauth-status',
  topic: 'OAuth',
  summary: "Shows how an integration's authorization stands; asks no provider.",
  examples: ['integrations oauth-status 7', 'integrations oauth-status 7 --json'],
  places: ['id'],
  fields: { id: id('of the integration') },
  reach: 'integration',
  output: Status,
  routes: [{ method: 'get', path: '/integrations/:id/oauth' }],
  run: async ({ integrations }, { id }) => oauthStatusColumns(await integrations.oauth.status(id)),
  show(status) {
    const { integration_id: id, needs_authorization, connected, reauth_required } = status
    const isInOrder = !needs_authorization || (connected && !reauth_required)
    const todo = `A person has to connect it: integrations oauth-link ${id} prints a link for that.`
    return isInOrder ? fieldLines(status) : `${fieldLines(status)}\n${todo}`
  },
})
