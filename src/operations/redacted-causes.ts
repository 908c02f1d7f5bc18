import { errorChain } from '../core/failure-class.ts'
import { redactLikely, redactStart } from '../core/redaction.ts'
import { thrownTexts } from '../core/thrown.ts'

/** Of what an error and its causes say. */
const MAX_READ = 20_000

/**
 * An error and its causes as one line without secrets, for whoever is told of it: `TypeError: fetch failed, by Error: connect
 * ECONNREFUSED 127.0.0.1:9`. Redacted before it is cut. Never throws, whatever was thrown.
 */
export function redactedCauses(error: unknown, secrets: readonly string[], maxLength: number): string {
  const line = [...new Set(chainOf(error).map(lineOf))].join(', by ')
  return redactLikely(redactStart(line, secrets, MAX_READ))
    .replace(/\s*\n\s*/g, ' ')
    .slice(0, maxLength)
}

function chainOf(error: unknown): readonly unknown[] {
  try {
    const chain = errorChain(error)
    return chain.length === 0 ? [error] : chain
  } catch {
    // Its cause can't be read.
    return [error]
  }
}

function lineOf(link: unknown): string {
  const { name, message, code } = thrownTexts(link)
  // Of several addresses that were refused Node's AggregateError has no message, only their code.
  const text = message === '' ? code : message
  return [name, text].filter((part) => part !== null).join(': ')
}
