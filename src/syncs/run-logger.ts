import { eq } from 'drizzle-orm'
import type { Framework } from '../framework/context.ts'
import type { Logger } from '../framework/logger.ts'
import { boundLogger, integrationLogger } from '../framework/logger.ts'
import { inTime } from '../framework/waiting.ts'
import { PATIENCE_MS, subjectOf } from '../observability/metric-subject.ts'
import type { RunIds } from './run-rules.ts'
import type { SyncOf } from './sync-jobs.ts'

/** A logger whose every line names the integration, its provider and the stream. Never throws, and never waits long. */
export async function subjectLogger(framework: Framework, { integrationId, stream = null }: SyncOf): Promise<Logger> {
  return integrationLogger(framework, { ...(await subjectOf(framework, integrationId)), stream })
}

/** The same for lines that name a run, too. */
export async function runLogger(framework: Framework, { integrationId, syncLogId }: RunIds): Promise<Logger> {
  const stream = await inTime(streamOf(framework, syncLogId), PATIENCE_MS)
  return boundLogger(await subjectLogger(framework, { integrationId, stream }), { sync_log: syncLogId })
}

/** Null: the integration's own, or it cannot be read now. */
async function streamOf({ db, tables: { logs } }: Framework, syncLogId: number): Promise<string | null> {
  const read = db.select({ stream: logs.stream }).from(logs).where(eq(logs.id, syncLogId))
  return read.then(([row]) => row?.stream ?? null).catch(() => null)
}
