/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { audit } from './access/audit.ts'
import { createToken } from './access/create-token.ts'
import { listTokens } from './access/list-tokens.ts'
import { revokeToken } from './access/revoke-token.ts'
import type { AnyCommand } from './command.ts'
import { bundleWorkflows } from './development/bundle-workflows.ts'
import { completion } from './development/completion.ts'
import { makeProvider } from './development/make-provider.ts'
import { rehearse } from './development/rehearse.ts'
import { simulate } from './development/simulate.ts'
import { deleteIntegration } from './integrations/delete.ts'
import { disable } from './integrations/disable.ts'
import { enable } from './integrations/enable.ts'
import { erase } from './integrations/erase.ts'
import { install } from './integrations/install.ts'
import { list } from './integrations/list.ts'
import { show } from './integrations/show.ts'
import { test } from './integrations/test.ts'
import { update } from './integrations/update.ts'
import { oauthLink } from './oauth/oauth-link.ts'
import { oauthStatus } from './oauth/oauth-status.ts'
import { refreshTokens } from './oauth/refresh-tokens.ts'
import { revokeOAuth } from './oauth/revoke-oauth.ts'
import { events } from './records/events.ts'
import { findOrphans } from './records/find-orphans.ts'
import { forgetIdempotencyKey } from './records/forget-idempotency-key.ts'
import { forgetMapping } from './records/forget-mapping.ts'
import { idempotencyKeys } from './records/idempotency-keys.ts'
import { logs } from './records/logs.ts'
import { mappings } from './records/mappings.ts'
import { prune } from './records/prune.ts'
import { repointMapping } from './records/repoint-mapping.ts'
import { requests } from './records/requests.ts'
import { config } from './set-up/config.ts'
import { dashboard } from './set-up/dashboard.ts'
import { doctor } from './set-up/doctor.ts'
import { keys } from './set-up/keys.ts'
import { migrate } from './set-up/migrate.ts'
import { schedules } from './set-up/schedules.ts'
import { advanceCursor } from './syncs/advance-cursor.ts'
import { cancelSync } from './syncs/cancel-sync.ts'
import { confirmMissing } from './syncs/confirm-missing.ts'
import { finaliseSyncRun } from './syncs/finalise-sync-run.ts'
import { listFailedItems } from './syncs/list-failed-items.ts'
import { listSyncItems } from './syncs/list-sync-items.ts'
import { listSyncRuns } from './syncs/list-sync-runs.ts'
import { pauseSync } from './syncs/pause-sync.ts'
import { resumeSync } from './syncs/resume-sync.ts'
import { retrySyncItem } from './syncs/retry-sync-item.ts'
import { showSyncItem } from './syncs/show-sync-item.ts'
import { showSyncRun } from './syncs/show-sync-run.ts'
import { skipSyncItem } from './syncs/skip-sync-item.ts'
import { sync } from './syncs/sync.ts'
import { syncInterval } from './syncs/sync-interval.ts'
import { syncProgress } from './syncs/sync-progress.ts'
import { acknowledgeIncident } from './trouble/acknowledge-incident.ts'
import { annotateIncident } from './trouble/annotate-incident.ts'
import { circuit } from './trouble/circuit.ts'
import { evaluateFailures } from './trouble/evaluate-failures.ts'
import { explain } from './trouble/explain.ts'
import { failures } from './trouble/failures.ts'
import { health } from './trouble/health.ts'
import { incidents } from './trouble/incidents.ts'
import { notifications } from './trouble/notifications.ts'
import { rateLimit } from './trouble/rate-limit.ts'
import { retry } from './trouble/retry.ts'
import { searchPayloads } from './trouble/search-payloads.ts'
import { snoozeIncident } from './trouble/snooze-incident.ts'
import { stats } from './trouble/stats.ts'
import { checkWebhooks } from './webhooks/check-webhooks.ts'
import { dismissWebhook } from './webhooks/dismiss-webhook.ts'
import { listWebhooks } from './webhooks/list-webhooks.ts'
import { reconcileWebhooks } from './webhooks/reconcile-webhooks.ts'
import { recoverWebhooks } from './webhooks/recover-webhooks.ts'
import { registerWebhooks } from './webhooks/register-webhooks.ts'
import { removeWebhooks } from './webhooks/remove-webhooks.ts'
import { replayWebhook } from './webhooks/replay-webhook.ts'
import { rotateWebhookSecret } from './webhooks/rotate-webhook-secret.ts'
import { showWebhook } from './webhooks/show-webhook.ts'

export const TABLE: readonly AnyCommand[] = [
  audit,
  createToken,
  listTokens,
  revokeToken,
  bundleWorkflows,
  completion,
  makeProvider,
  rehearse,
  simulate,
  deleteIntegration,
  disable,
  enable,
  erase,
  install,
  list,
  show,
  test,
  update,
  oauthLink,
  oauthStatus,
  refreshTokens,
  revokeOAuth,
  events,
  findOrphans,
  forgetIdempotencyKey,
  forgetMapping,
  idempotencyKeys,
  logs,
  mappings,
  prune,
  repointMapping,
  requests,
  config,
  dashboard,
  doctor,
  keys,
  migrate,
  schedules,
  advanceCursor,
  cancelSync,
  confirmMissing,
  finaliseSyncRun,
  listFailedItems,
  listSyncItems,
  listSyncRuns,
  pauseSync,
  resumeSync,
  retrySyncItem,
  showSyncItem,
  showSyncRun,
  skipSyncItem,
  syncInterval,
  syncProgress,
  sync,
  acknowledgeIncident,
  annotateIncident,
  circuit,
  evaluateFailures,
  explain,
  failures,
  health,
  incidents,
  notifications,
  rateLimit,
  retry,
  searchPayloads,
  snoozeIncident,
  stats,
  checkWebhooks,
  dismissWebhook,
  listWebhooks,
  reconcileWebhooks,
  recoverWebhooks,
  registerWebhooks,
  removeWebhooks,
  replayWebhook,
  rotateWebhookSecret,
  showWebhook,
]
