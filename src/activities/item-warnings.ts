/** Attempts of items that failed and are not the last, as log lines: many items fail of one thing. Rule: docs/behaviour/logs.md. */
import type { SyncItemRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { RepeatedWarnings } from '../operations/repeated-warnings.ts'

const WARNINGS = new WeakMap<Framework, RepeatedWarnings>()
/** Of an error's text: what makes two of a kind stands at its beginning. */
const KIND_LENGTH = 120

export interface FailedAttempt {
  readonly row: SyncItemRow
  readonly provider: string | null
  readonly error: string
  readonly maxAttempts: number
  readonly seconds: number
}

/** The first of a kind is a line, and one a minute while they go on; each says how many there were. */
export function failedAttempt(
  framework: Framework,
  { row, provider, error, maxAttempts, seconds }: FailedAttempt,
): void {
  const warnings = WARNINGS.get(framework) ?? new RepeatedWarnings(framework.logger, framework.clock)
  WARNINGS.set(framework, warnings)
  warnings.warn(
    `${row.integrationId} ${row.syncLogId} ${kindOf(error)}`,
    () => ({
      event: 'item.attempt_failed',
      integration: row.integrationId,
      provider,
      sync_log: row.syncLogId,
      sync_item: row.id,
      external_id: row.externalId,
      attempt: row.attempts,
      max_attempts: maxAttempts,
      retry_after_seconds: seconds,
      error,
    }),
    'an attempt of a sync item failed, and it is tried again',
  )
}

/** Without what tells one item from another: numbers, and ids that look like hexadecimal. */
function kindOf(error: string): string {
  return error
    .replace(/\b[0-9a-f]{8}[0-9a-f-]*\b/gi, '#')
    .replace(/\d+/g, '#')
    .slice(0, KIND_LENGTH)
}
