/** Inputs that a person may have typed, or left out. Rule: docs/behaviour/workflows.md, "Asking and starting". */
import { log } from '@temporalio/workflow'
import { windowProblem } from '../syncs/sync-jobs.ts'
import { plainFailure } from './readable-failure.ts'

/**
 * Whether a signal came without the input that it needs, as the Temporal UI sends it where its field stays empty. A handler
 * that throws fails its workflow's task at each try and in each replay, for ever: such a signal is noted and dropped.
 */
export function lacksInput(signal: string, input: unknown): boolean {
  if (input !== undefined && input !== null) return false
  log.warn('a signal came without its input; nothing was done', { event: 'workflow.signal_dropped', signal })
  return true
}

/**
 * Refuses an input whose id is missing or no id, in the words of the activities that check theirs. Without it such a workflow
 * would hold its id, and with it the lock of its integration or row, for ever.
 *
 * @throws ApplicationFailure `invalid_argument`
 */
export function refuseUnlessFor(name: 'integrationId' | 'itemId' | 'webhookId', input: unknown): void {
  const given = fieldOf(input, name)
  if (isCount(given)) return
  const what = given === undefined ? 'nothing' : typeof given === 'number' ? String(given) : kindOf(given)
  throw invalidArgument(`"${name}": a whole number of at least 1 is allowed, ${what} was given.`)
}

/** Also refuses a `stream` that is no text. @throws as {@link refuseUnlessFor} */
export function refuseUnlessForSync(input: unknown): void {
  refuseUnlessFor('integrationId', input)
  const stream = fieldOf(input, 'stream')
  if (stream === undefined || stream === null || typeof stream === 'string') return
  throw invalidArgument(`"stream": the name of a stream is allowed, ${kindOf(stream)} was given.`)
}

/**
 * Refuses a window that the command `sync` refuses. A moment without its offset would be another one on each worker.
 *
 * @throws as {@link refuseUnlessFor}
 */
export function refuseUnlessWindow(input: unknown): void {
  const [from, to] = [momentIn(input, 'from'), momentIn(input, 'to')]
  const problem = windowProblem(from, to)
  if (problem !== null) throw invalidArgument(`"to": ${problem}.`)
}

const MOMENT = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/

function momentIn(input: unknown, name: 'from' | 'to'): number {
  const given = fieldOf(input, name)
  const [text = '', day = ''] = typeof given === 'string' ? (MOMENT.exec(given) ?? []) : []
  // A day that is not in its month reads as one of the next month.
  const [moment, midnight] = [Date.parse(text), new Date(`${day}T00:00:00Z`)]
  if (!Number.isNaN(moment) && midnight.toISOString().startsWith(day)) return moment
  const what = typeof given === 'string' ? `"${given.slice(0, 40)}"` : given === undefined ? 'nothing' : kindOf(given)
  throw invalidArgument(
    `"${name}": a moment in ISO 8601 with its offset is allowed, such as 2031-06-01T12:00:00Z; ${what} was given.`,
  )
}

/** A refusal of an input, for people. */
export function invalidArgument(message: string): Error {
  return plainFailure({ message, type: 'invalid_argument', nonRetryable: true })
}

export function kindOf(given: unknown): string {
  return given === null ? 'null' : Array.isArray(given) ? 'a list' : `a ${typeof given}`
}

function fieldOf(input: unknown, name: string): unknown {
  return typeof input === 'object' && input !== null ? (input as Readonly<Record<string, unknown>>)[name] : undefined
}

function isCount(given: unknown): given is number {
  return typeof given === 'number' && Number.isSafeInteger(given) && given >= 1
}
