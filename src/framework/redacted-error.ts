import { redactStart, redactText } from './redaction.ts'
import { classNameOf, thrownTexts } from './thrown.ts'

/** What an error says, without its class and without secrets; its class where it says nothing. */
export function redactedMessage(error: unknown, secrets: readonly string[], maxLength: number): string {
  const { name, message } = thrownTexts(error)
  const text = (message === '' ? (name ?? '') : message).replaceAll('\u0000', '')
  return redactStart(text, secrets, maxLength)
}

/** `<class>: <message>` without secrets; the class also where it gives itself no `name`. */
export function redactedClassLine(error: unknown, secrets: readonly string[], maxLength: number): string {
  const { name, message } = thrownTexts(error)
  const line = name === null ? message : `${name === 'Error' ? classNameOf(error) : name}: ${message}`
  return redactStart(line.replaceAll('\u0000', ''), secrets, maxLength)
}

/** An error as one line without secrets: `Name: message (code)`. Of a long one the message is cut. */
export function redactedErrorLine(error: unknown, secrets: readonly string[], maxLength: number): string {
  const { name, message, code } = thrownTexts(error)
  const line = name === null ? message : `${name}: ${message}`
  const coded = name === null || code === null ? '' : ` (${code})`
  const end = redactText(coded.replaceAll('\u0000', ''), secrets).slice(0, maxLength)
  return redactStart(line.replaceAll('\u0000', ''), secrets, maxLength - end.length) + end
}
