/** What a record costs that is as it was handled last, beside one that is new: the processor time of all that takes part. */
import { cpuOfDescendants } from '../cpu.ts'
import type { Figure } from '../frame.ts'
import { median } from '../frame.ts'
import { PROVIDER } from './ours.ts'
import type { Stage } from './stage.ts'
import { runId, runSync } from './stage.ts'

export interface UnchangedFigures {
  readonly added: Figure
  readonly unchanged: Figure
}

export async function measureUnchanged(stage: Stage): Promise<UnchangedFigures> {
  const { tables, lengths } = stage
  stage.say(`${lengths.items} records, added and unchanged`)
  const costs: { added: number; unchanged: number }[] = []
  // The first round warms up, and counts for nothing.
  for (let round = 0; round <= lengths.rounds; round += 1) {
    await tables.clear()
    const startedAt = cpuOfDescendants()
    const { integrationId } = await runSync(stage, PROVIDER.hashed, lengths.items)
    const addedAt = cpuOfDescendants()
    await runAgain(stage, integrationId)
    costs.push({ added: addedAt - startedAt, unchanged: cpuOfDescendants() - addedAt })
  }
  const figure = (which: 'added' | 'unchanged'): Figure => ({
    name: `${lengths.items.toLocaleString('en-US')} records with skipUnchanged: ${which}`,
    value: (median(costs.slice(1).map((cost) => cost[which])) / lengths.items) * 1_000,
    unit: 'µs of processor time',
  })
  return { added: figure('added'), unchanged: figure('unchanged') }
}

/** The same listing again: every record of it must be unchanged. */
async function runAgain({ integrations, temporal, tables, lengths }: Stage, integrationId: number): Promise<void> {
  await integrations.syncs.start(integrationId)
  await temporal.workflow.getHandle(runId(integrations, integrationId)).result()
  const [run] = await tables.sql<{ unchanged: number | null }[]>`
    select (metadata ->> 'unchanged')::int as unchanged from integration_logs
    where integration_id = ${integrationId} and operation = 'sync' order by id desc limit 1`
  if (run?.unchanged !== lengths.items)
    throw new Error(`${lengths.items} records should be unchanged; found ${JSON.stringify(run)}`)
}
