/** A workflow that keeps its thread busy for some seconds. */
import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../src/activities/index.ts'

const { followIncident } = proxyActivities<Activities>({ startToCloseTimeout: '1 minute' })
/** A second or more. */
const ROUNDS = 300_000_000

export async function busy({ integrationId }: { integrationId: number }): Promise<number> {
  await followIncident({ integrationId })
  let sum = 0
  for (let round = 0; round < ROUNDS; round++) sum = (sum * 31 + round) % 1_000_003
  console.error('counted', { rounds: ROUNDS })
  return sum
}
