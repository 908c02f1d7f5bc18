import type { Framework } from '../framework/context.ts'
import type { Logger } from '../framework/logger.ts'
import { boundLogger, integrationLogger } from '../framework/logger.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { RunIds } from './run-rules.ts'

/** A logger whose every line names the run, its integration and the provider. Never throws, and never waits long. */
export async function runLogger(framework: Framework, { integrationId, syncLogId }: RunIds): Promise<Logger> {
  const { provider } = await subjectOf(framework, integrationId)
  return boundLogger(integrationLogger(framework, { id: integrationId, provider }), { sync_log: syncLogId })
}
