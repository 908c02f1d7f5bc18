/** The operator API's authorizations. Rule: docs/behaviour/operator-api.md, "OAuth". */
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { oauthStatusColumns } from '../oauth/status-rules.ts'
import { optionalJsonBody, queryOf } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { asColumns, idOf, noteAct } from './operator-api.ts'
import { forceQuery, newOAuthLink } from './operator-schemas.ts'

export function operatorOAuthRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const { oauth } = integrations
  const routes = new Hono<AccessEnvironment>()

  routes.get('/integrations/:id/oauth', async (context) =>
    context.json(oauthStatusColumns(await oauth.status(idOf(context)))),
  )

  routes.post('/integrations/:id/oauth/link', async (context) => {
    const id = idOf(context)
    const link = await optionalJsonBody(context, newOAuthLink)
    // Refuses a provider without OAuth: its link would open nothing.
    await oauth.status(id)
    const url = await oauth.link(id, link)
    await noteAct(integrations, context, id, `oauth-link ${link.action}`)
    return context.json({ integration_id: id, url })
  })

  routes.post('/integrations/:id/oauth/revoke', async (context) => {
    const id = idOf(context)
    const outcome = await oauth.revoke(id, queryOf(context, forceQuery))
    if (outcome === 'revoked') await noteAct(integrations, context, id, 'revoke-oauth')
    return context.json({ integration_id: id, revoked: outcome === 'revoked' })
  })

  routes.post('/integrations/:id/oauth/refresh', async (context) => {
    const id = idOf(context)
    // Refuses here, in the caller's terms. A worker's refusal would be a failed workflow.
    await oauth.status(id)
    const result = await oauth.refresh({ integrationId: id })
    await noteAct(integrations, context, id, 'refresh-tokens')
    return context.json({ integration_id: id, ...asColumns(result) })
  })

  return routes
}
