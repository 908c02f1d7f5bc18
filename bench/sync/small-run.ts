/** What a run of few items costs in Temporal, when nothing fails. */
import type { Figure } from '../frame.ts'
import type { WorkflowCost } from '../workflow-cost.ts'
import { workflowCost } from '../workflow-cost.ts'
import { PROVIDER } from './ours.ts'
import type { Stage } from './stage.ts'
import { runId, runSync } from './stage.ts'

/** The most that counts as few, and the least. */
const ITEMS = [200, 1, 0]

export interface SmallRunFigures {
  readonly activities: Figure
  readonly localActivities: Figure
}

/** @returns the dearest of the runs */
export async function measureSmallRun(stage: Stage): Promise<SmallRunFigures> {
  const { integrations, temporal, tables } = stage
  stage.say('a small run')
  await tables.clear()
  const costs: WorkflowCost[] = []
  for (const items of ITEMS) {
    const { integrationId } = await runSync(stage, PROVIDER.quick, items)
    costs.push(await workflowCost(temporal, runId(integrations, integrationId)))
  }
  const figure = (name: string, of: 'activities' | 'localActivities'): Figure => ({
    name: `a run of 200 items: ${name}`,
    value: Math.max(...costs.map((cost) => cost[of])),
    unit: 'activities',
  })
  return { activities: figure('activities', 'activities'), localActivities: figure('local ones', 'localActivities') }
}
