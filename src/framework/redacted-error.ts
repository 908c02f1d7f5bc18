import { errorLine } from './logger.ts'
import { redactStart } from './redaction.ts'
import { thrownTexts } from './thrown.ts'

/** What an error says, without its class and without secrets; its class where it says nothing. */
export function redactedMessage(error: unknown, secrets: readonly string[], maxLength: number): string {
  const { name, message } = thrownTexts(error)
  const text = (message === '' ? (name ?? '') : message).replaceAll('\u0000', '')
  return redactStart(text, secrets, maxLength)
}

/** An error as one line without secrets. */
export function redactedErrorLine(error: unknown, secrets: readonly string[], maxLength: number): string {
  const line = errorLine(error, Number.MAX_SAFE_INTEGER).replaceAll('\u0000', '')
  return redactStart(line, secrets, maxLength)
}
