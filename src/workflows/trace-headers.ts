/**
 * Hands the trace on in which a workflow was started: to its activities, its children and the history that it goes on in. A run that
 * was started in none says to the latter two which execution they go on from: its activities see that for themselves.
 *
 * A header is copied or written, nothing else: no span, no clock, no SDK inside a workflow, and no command that was not there
 * before. A header is no part of what a replay compares. Rule: docs/behaviour/tracing.md, "Workflows".
 */
import type {
  Headers,
  WorkflowInboundCallsInterceptor,
  WorkflowInterceptors,
  WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow'
import { defaultPayloadConverter, workflowInfo } from '@temporalio/workflow'
import { isTracedRun, RUN_HEADER, TRACE_HEADER } from '../core/traced-run.ts'

export function interceptors(): WorkflowInterceptors {
  const trace = new PassedOn()
  return { inbound: [trace], outbound: [trace] }
}

/** Of one run of a workflow. */
class PassedOn implements WorkflowInboundCallsInterceptor, WorkflowOutboundCallsInterceptor {
  #headers: Headers = {}

  execute: NonNullable<WorkflowInboundCallsInterceptor['execute']> = (input, next) => {
    for (const name of [TRACE_HEADER, RUN_HEADER]) {
      const given = input.headers[name]
      if (given !== undefined) this.#headers = { ...this.#headers, [name]: given }
    }
    return next(input)
  }

  scheduleActivity: NonNullable<WorkflowOutboundCallsInterceptor['scheduleActivity']> = (input, next) =>
    next(this.#with(input))

  scheduleLocalActivity: NonNullable<WorkflowOutboundCallsInterceptor['scheduleLocalActivity']> = (input, next) =>
    next(this.#with(input))

  startChildWorkflowExecution: NonNullable<WorkflowOutboundCallsInterceptor['startChildWorkflowExecution']> = (
    input,
    next,
  ) => next(this.#with(input, this.#origin()))

  continueAsNew: NonNullable<WorkflowOutboundCallsInterceptor['continueAsNew']> = (input, next) =>
    next(this.#with(input, this.#origin()))

  /** Of a run in no trace of anybody's. */
  #origin(): Headers {
    // As its activities see it: after a reset that is another one than the first execution's.
    const { workflowType, runId } = workflowInfo()
    const isInTrace = TRACE_HEADER in this.#headers || RUN_HEADER in this.#headers
    if (isInTrace || !isTracedRun(workflowType)) return {}
    return { [RUN_HEADER]: defaultPayloadConverter.toPayload(runId) }
  }

  #with<Input extends { readonly headers: Headers }>(input: Input, also: Headers = {}): Input {
    return { ...input, headers: { ...input.headers, ...also, ...this.#headers } }
  }
}
