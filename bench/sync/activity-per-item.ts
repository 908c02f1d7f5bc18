/** The workflow of whoever gives each item an activity of its own, so many at a time. */
import { proxyActivities } from '@temporalio/workflow'
import type { ItemActivities } from './activity-process.ts'

const { settleItem } = proxyActivities<ItemActivities>({ startToCloseTimeout: '1 minute' })

export async function activityPerItem(itemIds: number[], atOnce: number): Promise<void> {
  let next = 0
  const lane = async () => {
    for (let id = itemIds[next++]; id !== undefined; id = itemIds[next++]) await settleItem(id)
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
}
