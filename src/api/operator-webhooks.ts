/** The operator API's webhooks. Rule: docs/behaviour/operator-api.md, "Webhooks". */
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { jsonBody, optionalJsonBody } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { externalPath } from './middleware.ts'
import { asColumns, idOf, noteAct } from './operator-api.ts'
import { dismissal, newWebhookSecret, reconciliation, webhooksToDismiss, webhooksToReplay } from './operator-schemas.ts'
import { ProblemError } from './problem.ts'

/** The middleware before these routes has checked the caller. */
export function operatorWebhookRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const { webhooks } = integrations
  const routes = new Hono<AccessEnvironment>()

  routes.post('/webhooks/replay', async (context) => {
    const { dryRun, filter } = await jsonBody(context, webhooksToReplay)
    if (dryRun) return context.json(await webhooks.previewReplay(filter))
    const { replayed, integrations: touched, more } = await webhooks.replayMany(filter)
    for (const { id, replayed: of } of touched)
      await noteAct(integrations, context, id, `replay ${of === 1 ? '1 webhook' : `${of} webhooks`}`)
    return context.json({ replayed, integrations: touched.length, more })
  })

  routes.post('/webhooks/dismiss', async (context) => {
    const { dryRun, undo, filter } = await jsonBody(context, webhooksToDismiss)
    if (dryRun) return context.json(await webhooks.previewDismissal(filter, { undo }))
    const { dismissed, integrations: touched } = await webhooks.dismissMany(filter, { undo })
    for (const { id, dismissed: of } of touched)
      await noteAct(
        integrations,
        context,
        id,
        `${undo ? 'undo ' : ''}dismiss ${of === 1 ? '1 webhook' : `${of} webhooks`}`,
      )
    return context.json({ dismissed, integrations: touched.length })
  })

  routes.post('/webhooks/:id/dismiss', async (context) => {
    const { undo } = await optionalJsonBody(context, dismissal)
    const { webhookId, integrationId, dismissedAt } = await webhooks.dismiss(idOf(context, 'webhook'), { undo })
    await noteAct(integrations, context, integrationId, undo ? 'undo dismiss' : 'dismiss', `webhook:${webhookId}`)
    return context.json({ webhook_id: webhookId, status: 'failed', dismissed_at: dismissedAt })
  })

  routes.post('/webhooks/:id/replay', async (context) => {
    const { webhookId, integrationId, workflowId } = await webhooks.startReplay(idOf(context, 'webhook'))
    await noteAct(integrations, context, integrationId, 'replay', `webhook:${webhookId}`)
    context.header('Location', externalPath(integrations, context.req.path.replace(/\/replay$/, '')))
    return context.json({ webhook_id: webhookId, workflow_id: workflowId }, 202)
  })

  routes.post('/integrations/:id/reconcile', async (context) => {
    const id = idOf(context)
    const { since, dryRun } = await optionalJsonBody(context, reconciliation)
    const result = await webhooks.reconcile({
      integrationId: id,
      ...(since === undefined ? {} : { since: since.toISOString() }),
      dryRun,
    })
    if (result === 'already running') {
      const detail = 'A reconciliation is running. Wait for its end, and ask again.'
      throw new ProblemError({ status: 409, code: 'already_running', detail })
    }
    if (!dryRun) await noteAct(integrations, context, id, 'reconcile')
    return context.json(asColumns(result))
  })

  routes.post('/integrations/:id/rotate-webhook-secret', async (context) => {
    const id = idOf(context)
    const given = await optionalJsonBody(context, newWebhookSecret)
    const { secret, oldValidUntil } = await webhooks.rotateSecret(
      id,
      given.secret === undefined ? {} : { secret: given.secret },
    )
    await noteAct(integrations, context, id, 'rotate-webhook-secret')
    // A caller that gave the secret has it already.
    return context.json({
      integration_id: id,
      secret: given.secret === undefined ? secret : null,
      old_valid_until: oldValidUntil,
    })
  })

  return routes
}
