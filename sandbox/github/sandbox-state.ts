import type { Fault, FaultList } from '../faults.ts'
import { createFaultList } from '../faults.ts'
import type { Caller } from './callers.ts'
import type { Dataset, DatasetOptions } from './dataset.ts'
import { createDataset } from './dataset.ts'
import { HookDeliveries } from './hook-deliveries.ts'
import { Hooks } from './hooks.ts'
import { InstallationTokens } from './installation-tokens.ts'
import { IssueEvents } from './issue-events.ts'
import { RequestLog } from './request-log.ts'

/** Everything a sandbox remembers, but for the quota. */
export interface SandboxState {
  dataset: Dataset
  log: RequestLog
  deliveries: HookDeliveries
  hooks: Hooks
  events: IssueEvents
  installationTokens: InstallationTokens
  faults: FaultList
  now: () => Date
  /** Back to the first data, with no faults, no deliveries and an empty log. The quota stays used, tokens live on. */
  reset(): void
}

/** What a request carries through the pipeline. */
export interface SandboxEnv {
  Variables: { requestId: string; caller: Caller; fault: Fault | null }
}

export function createSandboxState(seed: DatasetOptions, now: () => Date): SandboxState {
  const state: SandboxState = {
    dataset: createDataset(seed),
    log: new RequestLog(),
    deliveries: new HookDeliveries(),
    hooks: new Hooks(now),
    events: new IssueEvents(),
    installationTokens: new InstallationTokens(now),
    faults: createFaultList(),
    now,
    reset() {
      state.dataset = createDataset(seed)
      state.log.clear()
      state.deliveries.clear()
      state.hooks.clear()
      state.events = new IssueEvents()
      state.faults.clear()
    },
  }
  return state
}
