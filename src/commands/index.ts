/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { acknowledgeIncident } from './acknowledge-incident.ts'
import { advanceCursor } from './advance-cursor.ts'
import { annotateIncident } from './annotate-incident.ts'
import { audit } from './audit.ts'
import { bundleWorkflows } from './bundle-workflows.ts'
import { cancelSync } from './cancel-sync.ts'
import { circuit } from './circuit.ts'
import type { AnyCommand } from './command.ts'
import { completion } from './completion.ts'
import { config } from './config.ts'
import { createToken } from './create-token.ts'
import { deleteIntegration } from './delete.ts'
import { disable } from './disable.ts'
import { dismissWebhook } from './dismiss-webhook.ts'
import { doctor } from './doctor.ts'
import { enable } from './enable.ts'
import { erase } from './erase.ts'
import { evaluateFailures } from './evaluate-failures.ts'
import { events } from './events.ts'
import { explain } from './explain.ts'
import { failures } from './failures.ts'
import { finaliseSyncRun } from './finalise-sync-run.ts'
import { findOrphans } from './find-orphans.ts'
import { forgetIdempotencyKey } from './forget-idempotency-key.ts'
import { forgetMapping } from './forget-mapping.ts'
import { health } from './health.ts'
import { idempotencyKeys } from './idempotency-keys.ts'
import { incidents } from './incidents.ts'
import { install } from './install.ts'
import { keys } from './keys.ts'
import { list } from './list.ts'
import { listFailedItems } from './list-failed-items.ts'
import { listSyncItems } from './list-sync-items.ts'
import { listSyncRuns } from './list-sync-runs.ts'
import { listTokens } from './list-tokens.ts'
import { listWebhooks } from './list-webhooks.ts'
import { logs } from './logs.ts'
import { makeProvider } from './make-provider.ts'
import { mappings } from './mappings.ts'
import { migrate } from './migrate.ts'
import { notifications } from './notifications.ts'
import { oauthLink } from './oauth-link.ts'
import { oauthStatus } from './oauth-status.ts'
import { pauseSync } from './pause-sync.ts'
import { prune } from './prune.ts'
import { rateLimit } from './rate-limit.ts'
import { reconcileWebhooks } from './reconcile-webhooks.ts'
import { recoverWebhooks } from './recover-webhooks.ts'
import { refreshTokens } from './refresh-tokens.ts'
import { replayWebhook } from './replay-webhook.ts'
import { repointMapping } from './repoint-mapping.ts'
import { requests } from './requests.ts'
import { resumeSync } from './resume-sync.ts'
import { retry } from './retry.ts'
import { retrySyncItem } from './retry-sync-item.ts'
import { revokeOAuth } from './revoke-oauth.ts'
import { revokeToken } from './revoke-token.ts'
import { rotateWebhookSecret } from './rotate-webhook-secret.ts'
import { schedules } from './schedules.ts'
import { show } from './show.ts'
import { showSyncItem } from './show-sync-item.ts'
import { showSyncRun } from './show-sync-run.ts'
import { showWebhook } from './show-webhook.ts'
import { skipSyncItem } from './skip-sync-item.ts'
import { snoozeIncident } from './snooze-incident.ts'
import { stats } from './stats.ts'
import { sync } from './sync.ts'
import { syncInterval } from './sync-interval.ts'
import { syncProgress } from './sync-progress.ts'
import { test } from './test.ts'
import { update } from './update.ts'

export const TABLE: readonly AnyCommand[] = [
  acknowledgeIncident,
  advanceCursor,
  annotateIncident,
  audit,
  bundleWorkflows,
  cancelSync,
  circuit,
  completion,
  config,
  createToken,
  deleteIntegration,
  disable,
  dismissWebhook,
  doctor,
  enable,
  erase,
  evaluateFailures,
  events,
  explain,
  failures,
  finaliseSyncRun,
  findOrphans,
  forgetIdempotencyKey,
  forgetMapping,
  health,
  idempotencyKeys,
  incidents,
  install,
  keys,
  listFailedItems,
  listSyncItems,
  listSyncRuns,
  listTokens,
  listWebhooks,
  list,
  logs,
  makeProvider,
  mappings,
  migrate,
  notifications,
  oauthLink,
  oauthStatus,
  pauseSync,
  prune,
  rateLimit,
  reconcileWebhooks,
  recoverWebhooks,
  refreshTokens,
  replayWebhook,
  repointMapping,
  requests,
  resumeSync,
  retrySyncItem,
  retry,
  revokeOAuth,
  revokeToken,
  rotateWebhookSecret,
  schedules,
  showSyncItem,
  showSyncRun,
  showWebhook,
  show,
  skipSyncItem,
  snoozeIncident,
  stats,
  syncInterval,
  syncProgress,
  sync,
  test,
  update,
]
