import type { Framework } from '../framework/context.ts'
import type { Logger } from '../framework/logger.ts'
import { boundLogger, integrationLogger } from '../framework/logger.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { RunIds } from './run-rules.ts'

/** A logger whose every line names the integration and its provider. Never throws, and never waits long. */
export async function subjectLogger(framework: Framework, integrationId: number): Promise<Logger> {
  return integrationLogger(framework, await subjectOf(framework, integrationId))
}

/** The same for lines that name a run, too. */
export async function runLogger(framework: Framework, { integrationId, syncLogId }: RunIds): Promise<Logger> {
  return boundLogger(await subjectLogger(framework, integrationId), { sync_log: syncLogId })
}
