/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { advanceCursor } from './advance-cursor.ts'
import { cancelSync } from './cancel-sync.ts'
import { circuit } from './circuit.ts'
import type { AnyCommand } from './command.ts'
import { deleteIntegration } from './delete.ts'
import { finaliseSyncRun } from './finalise-sync-run.ts'
import { listFailedItems } from './list-failed-items.ts'
import { listSyncItems } from './list-sync-items.ts'
import { listSyncRuns } from './list-sync-runs.ts'
import { listWebhooks } from './list-webhooks.ts'
import { pauseSync } from './pause-sync.ts'
import { resumeSync } from './resume-sync.ts'
import { retrySyncItem } from './retry-sync-item.ts'
import { showSyncItem } from './show-sync-item.ts'
import { showSyncRun } from './show-sync-run.ts'
import { showWebhook } from './show-webhook.ts'
import { skipSyncItem } from './skip-sync-item.ts'
import { sync } from './sync.ts'
import { syncInterval } from './sync-interval.ts'
import { syncProgress } from './sync-progress.ts'

export const TABLE: readonly AnyCommand[] = [
  advanceCursor,
  cancelSync,
  circuit,
  deleteIntegration,
  finaliseSyncRun,
  listFailedItems,
  listSyncItems,
  listSyncRuns,
  listWebhooks,
  pauseSync,
  resumeSync,
  retrySyncItem,
  showSyncItem,
  showSyncRun,
  showWebhook,
  skipSyncItem,
  syncInterval,
  syncProgress,
  sync,
]
