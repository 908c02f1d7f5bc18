/** The commands about syncs as activities, so that Temporal's own tools can run them. Rule: docs/behaviour/sync-items.md, "Skip and retry". */

import type { Framework } from '../framework/context.ts'
import { advanceCursor } from '../syncs/cursor.ts'
import { skipSyncItem } from '../syncs/items/item-acts.ts'
import { listFailedItems } from '../syncs/items/item-list.ts'
import type {
  AdvanceCursorInput,
  AdvanceCursorResult,
  FailedItem,
  ListFailedItemsInput,
  SkipSyncItemInput,
  SkipSyncItemResult,
} from '../syncs/sync-jobs.ts'
import { temporalSurroundings } from './surroundings.ts'

export function syncOperationActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /** May be run twice: a second try does what the first one has left. */
    skipFailedItem: ({ itemId }: SkipSyncItemInput): Promise<SkipSyncItemResult> =>
      skipSyncItem(framework, itemId, { isTriedAgain: surroundings().info.attempt > 1 }),
    listFailedSyncItems: (input: ListFailedItemsInput): Promise<FailedItem[]> => listFailedItems(framework, input),
    advanceSyncCursor: (input: AdvanceCursorInput): Promise<AdvanceCursorResult> => advanceCursor(framework, input),
  }
}
