/** Which workflows are one trace each, although no traced caller has started them. Rule: docs/behaviour/tracing.md, "Workflows". */

/** Name of the Temporal header in which a workflow is told the trace that it was started in, as W3C's `traceparent`. */
export const TRACE_HEADER = 'traceparent'
/** Name of the Temporal header with the run id of the execution that a workflow continues: its own first one, or its parent's. */
export const RUN_HEADER = 'trace-run'

/**
 * Each is one piece of work, with an end. The inbox, the outbox and the workflow of an incident live for as long as there is
 * something to do: a trace of weeks is of no use. A host's own workflows are not known.
 */
const RUNS: ReadonlySet<string> = new Set([
  'advanceCursor',
  'backfillSync',
  'dispatchSyncs',
  'evaluateFailures',
  'findOrphans',
  'listFailedItems',
  'processSyncItem',
  'processWebhook',
  'prune',
  'reconcileWebhooks',
  'recoverWebhooks',
  'refreshTokens',
  'skipSyncItem',
  'syncIntegration',
])
/** A command's workflow has the command's name. */
const COMMAND = 'integrations:'
/** As Temporal's server makes them. https://www.rfc-editor.org/rfc/rfc9562#section-4 */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export function isTracedRun(workflowType: string): boolean {
  return workflowType.startsWith(COMMAND) || RUNS.has(workflowType)
}

/**
 * The trace id of an execution: its run id without the hyphens, so that each worker comes to the same one, and a person who has
 * either finds the other. Random where samplers look: the last 56 bits (https://www.w3.org/TR/trace-context-2/#random-trace-id-flag).
 *
 * @returns null for what is no UUID
 */
export function traceIdOf(runId: string): string | null {
  return UUID.test(runId) ? runId.replaceAll('-', '') : null
}
