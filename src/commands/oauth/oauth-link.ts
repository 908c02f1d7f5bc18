import { z } from 'zod'
import { MAX_LINK_SECONDS } from '../../access/rules.ts'
import { linkText, makeConnectLink } from '../cli/connect-link.ts'
import { command, route } from '../command.ts'
import { choice, id, whole, withDefault } from '../fields.ts'
import { moment, rowId } from '../shapes.ts'

export const oauthLink = command({
  name: 'oauth-link',
  topic: 'OAuth',
  summary: 'Prints a link that lets a person connect an integration to its provider.',
  examples: ['integrations oauth-link 7', 'integrations oauth-link 7 --hours 48 --json'],
  places: ['id'],
  workflow: { none: 'its result is a secret; a workflow history is kept for days, and many can read it' },
  fields: {
    id: id('of the integration'),
    hours: withDefault(
      whole('how long it opens, 1 to 168', { max: 168, allowed: 'whole hours from 1 to 168 (7 days) are allowed' }),
      1,
    ),
  },
  reach: 'integration',
  output: z.object({ integration_id: rowId, provider: z.string(), connect_url: z.string(), expires_at: moment }),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/oauth/link',
      summary: 'Makes a signed link, which allows one action on an authorization to any holder.',
      fields: {
        id: id('of the integration'),
        action: withDefault(choice('what it opens', ['connect', 'authorize', 'revoke']), 'connect'),
        expiresIn: withDefault(whole('seconds', { max: MAX_LINK_SECONDS }), 3_600),
      },
      output: z.object({ integration_id: rowId, url: z.string() }),
      async run({ integrations, note }, { id, ...link }) {
        // Refuses a provider without OAuth: its link would open nothing.
        await integrations.oauth.status(id)
        const url = await integrations.oauth.link(id, link)
        // The link itself is in no row, since any holder may open it.
        await note(id, `oauth-link ${link.action}`)
        return { integration_id: id, url }
      },
    }),
  ],
  async run({ integrations, note }, { id, hours }) {
    const integration = await integrations.get(id)
    const { url, expiresAt } = await makeConnectLink(integrations, integration, hours)
    await note(id, 'oauth-link connect')
    return { integration_id: id, provider: integration.provider, connect_url: url, expires_at: expiresAt }
  },
  show({ integration_id: id, provider, connect_url: url, expires_at: expiresAt }, { integrations }) {
    const { label = provider } = integrations.admin.providers().find(({ key }) => key === provider) ?? {}
    return `${linkText({ url, expiresAt }, label)}\nHow it stands: integrations oauth-status ${id}`
  },
})
