/** The bundle's entry. A host with workflows of its own re-exports this beside them. A command's workflow has the command's name, too. */
export { dispatchSyncs } from './dispatch-syncs.ts'
export { processWebhook, processWebhook as 'integrations:replay-webhook' } from './process-webhook.ts'
export { reconcileWebhooks, reconcileWebhooks as 'integrations:reconcile-webhooks' } from './reconcile-webhooks.ts'
export { recoverWebhooks, recoverWebhooks as 'integrations:recover-webhooks' } from './recover-webhooks.ts'
export { syncIntegration } from './sync-integration.ts'
export { webhookInbox } from './webhook-inbox.ts'
