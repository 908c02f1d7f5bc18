/** Inputs that a person may have typed, or left out. Rule: docs/behaviour/workflows.md, "Asking and starting". */
import { log } from '@temporalio/workflow'

/**
 * Whether a signal came without the input that it needs, as the Temporal UI sends it where its field stays empty. A handler
 * that throws fails its workflow's task at each try and in each replay, for ever: such a signal is noted and dropped.
 */
export function lacksInput(signal: string, input: unknown): boolean {
  if (input !== undefined && input !== null) return false
  log.warn('a signal came without its input; nothing was done', { event: 'workflow.signal_dropped', signal })
  return true
}
