/** What the scenarios of this bench play on. */
import type { Client } from '@temporalio/client'
import type { Integration, Integrations } from 'durable-integrations'
import { workflowId } from '../../src/workflows/ids.ts'
import type { Child } from '../child.ts'
import type { ProviderKey } from './ours.ts'
import { ITEMS_KEY } from './ours.ts'
import type { EndedRun, Tables } from './tables.ts'
import type { WorkerCommands } from './worker-process.ts'

export interface Stage {
  readonly tables: Tables
  /** Ours in this process: it creates integrations and starts runs, nothing else. */
  readonly integrations: Integrations
  readonly temporal: Client
  readonly worker: Child<WorkerCommands>
  /** The only integration that the peers know. */
  readonly peerIntegrationId: number
  readonly lengths: Lengths
  readonly say: (line: string) => void
}

export interface Lengths {
  readonly rounds: number
  /** Of a run that is compared with the peers. */
  readonly items: number
  /** Of the peer with an activity per item, which is slower by so much that fewer tell as much. */
  readonly activityItems: number
  /** Whose listeners wait. */
  readonly slowItems: number
}

/** Each run is of an integration of its own, and so of a history of its own. */
export function createIntegration(
  integrations: Integrations,
  provider: ProviderKey,
  items: number,
  { isActive = true }: { readonly isActive?: boolean } = {},
): Promise<Integration> {
  return integrations.create({ provider, name: provider, credentials: {}, metadata: { [ITEMS_KEY]: items }, isActive })
}

export const runId = ({ config }: Integrations, integrationId: number): string =>
  workflowId.syncIntegration(config.cache_prefix, { integrationId })

export interface Run extends EndedRun {
  readonly integrationId: number
  /** Milliseconds since 1970. */
  readonly firstDispatchAt: number
}

/** One run from its start to its end; every item is counted afterwards. */
export async function runSync(stage: Stage, provider: ProviderKey, items: number): Promise<Run> {
  const { integrations, temporal, tables, worker } = stage
  const { id } = await createIntegration(integrations, provider, items)
  await integrations.syncs.start(id)
  await temporal.workflow.getHandle(runId(integrations, id)).result()
  const { firstDispatch } = await worker.ask('moments', id)
  if (firstDispatch === null) throw new Error(`the provider of integration ${id} was not asked`)
  return { ...(await tables.endedRun(id, items)), integrationId: id, firstDispatchAt: firstDispatch }
}

/** From the first dispatch to the finalised run. */
export const secondsOf = ({ finalisedAt, firstDispatchAt }: Run): number => (finalisedAt - firstDispatchAt) / 1_000
