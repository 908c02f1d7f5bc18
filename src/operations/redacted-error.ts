import { errorLine } from '../core/logger.ts'
import { redactText } from '../core/redaction.ts'

/** An error as one line without secrets. Redacted before it is cut: half a secret at the cut would not be known again. */
export function redactedErrorLine(error: unknown, secrets: readonly string[], maxLength: number): string {
  const line = errorLine(error, Number.MAX_SAFE_INTEGER).replaceAll('\u0000', '')
  return redactText(line, secrets).slice(0, maxLength)
}
