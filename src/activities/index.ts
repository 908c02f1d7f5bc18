import type { Framework } from '../framework.ts'
import { syncItemActivities } from './sync-items.ts'
import { syncRunActivities } from './sync-runs.ts'
import { webhookActivities } from './webhooks.ts'

/** All activities, bound to one framework. Workflows know them by this type only. */
export function createActivities(framework: Framework) {
  return { ...webhookActivities(framework), ...syncRunActivities(framework), ...syncItemActivities(framework) }
}

export type Activities = ReturnType<typeof createActivities>
