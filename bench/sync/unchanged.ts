/** A run of many records that are as they were handled last, beside a run of the same records in which each is new. */
import type { Figure } from '../frame.ts'
import { median } from '../frame.ts'
import { PROVIDER } from './ours.ts'
import type { Stage } from './stage.ts'
import { runId, runSync, secondsOf } from './stage.ts'

export interface UnchangedFigures {
  readonly added: Figure
  readonly unchanged: Figure
}

export async function measureUnchanged(stage: Stage): Promise<UnchangedFigures> {
  const { tables, lengths } = stage
  stage.say(`${lengths.items} records, added and unchanged`)
  const rates: { added: number; unchanged: number }[] = []
  // The first round warms up, and counts for nothing.
  for (let round = 0; round <= lengths.rounds; round += 1) {
    await tables.clear()
    const first = await runSync(stage, PROVIDER.hashed, lengths.items)
    rates.push({
      added: lengths.items / secondsOf(first),
      unchanged: lengths.items / (await secondsOfSecondRun(stage, first.integrationId)),
    })
  }
  const figure = (which: 'added' | 'unchanged'): Figure => ({
    name: `${lengths.items.toLocaleString('en-US')} records with skipUnchanged: ${which}`,
    value: median(rates.slice(1).map((rate) => rate[which])),
    unit: 'items/s',
  })
  return { added: figure('added'), unchanged: figure('unchanged') }
}

/** The same listing again: every record of it must be unchanged. */
async function secondsOfSecondRun(stage: Stage, integrationId: number): Promise<number> {
  const { integrations, temporal, tables, worker, lengths } = stage
  await integrations.syncs.start(integrationId)
  await temporal.workflow.getHandle(runId(integrations, integrationId)).result()
  const { firstDispatch } = await worker.ask('moments', integrationId)
  const [run] = await tables.sql<{ unchanged: number; finalisedAt: number }[]>`
    select (l.metadata ->> 'unchanged')::int as unchanged, extract(epoch from i.last_synced_at)::float8 * 1000 as "finalisedAt"
    from integration_logs l join integrations i on i.id = l.integration_id
    where l.integration_id = ${integrationId} and l.operation = 'sync' order by l.id desc limit 1`
  if (firstDispatch === null || run?.unchanged !== lengths.items)
    throw new Error(`${lengths.items} records should be unchanged; found ${JSON.stringify(run)}`)
  return (run.finalisedAt - firstDispatch) / 1_000
}
