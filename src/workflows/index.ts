/** The bundle's entry. A host with workflows of its own re-exports this beside them. */
export { dispatchSyncs } from './dispatch-syncs.ts'
export { syncIntegration } from './sync-integration.ts'
export { webhookInbox } from './webhook-inbox.ts'
