/** What can be seen of a Temporal where all is well. */

import type { TemporalInspection } from '../../src/framework/context.ts'
import { temporalCommands } from '../../src/temporal/inspection.ts'
import { loadConfig } from './load-config.ts'

export function reachableTemporal(): TemporalInspection {
  const where = { address: 'temporal.example:7233', namespace: 'default' }
  const { config } = loadConfig({ config: {}, optionProviderKeys: [], middlewareNames: [] })
  return {
    ...where,
    commands: temporalCommands(config, where, false),
    check: async () => {},
    schedules: async () => [],
    dispatchPause: async () => null,
    applySchedules: async () => [],
    searchAttributes: async () => [],
    applySearchAttributes: async () => ({ states: [], added: [], problem: null }),
    pollers: async () => [{ taskQueue: 'integrations-default', workers: 1, lastPoll: null, backlog: null }],
    wedged: async () => [],
    isInboxRunning: async () => false,
    isOutboxRunning: async () => false,
    isIncidentFollowed: async () => true,
  }
}
