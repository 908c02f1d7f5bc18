import { z } from 'zod'
import { oauthStatusColumns } from '../../oauth/status-rules.ts'
import { command, fieldLines } from '../command.ts'
import { id } from '../fields.ts'
import { moment, rowId } from '../shapes.ts'

const Status = z.object({
  integration_id: rowId,
  needs_authorization: z.boolean(),
  connected: z.boolean(),
  token_expires_at: moment.nullable(),
  has_refresh_token: z.boolean(),
  reauth_required: z.boolean(),
  reauth_reason: z.string().nullable(),
  reauth_since: moment.nullable(),
  last_refreshed_at: moment.nullable(),
  next_refresh_at: moment.nullable(),
  failures: z.int(),
  failing_since: moment.nullable(),
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
