/**
 * Passes a workflow's trace on to its activities, its children and its next history. A run outside any trace tells its children
 * and its next history which execution they continue; its activities see that themselves.
 *
 * It only copies or writes headers: no span, no clock, no SDK inside a workflow, and no additional command. A replay does not
 * compare headers. Rule: docs/behaviour/tracing.md, "Workflows".
 */
import type {
  Headers,
  WorkflowInboundCallsInterceptor,
  WorkflowInterceptors,
  WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow'
import { defaultPayloadConverter, workflowInfo } from '@temporalio/workflow'
import { isTracedRun, RUN_HEADER, TRACE_HEADER } from '../observability/traced-run.ts'

export function interceptors(): WorkflowInterceptors {
  const trace = new PassedOn()
  return { inbound: [trace], outbound: [trace] }
}

/** The headers of one run of a workflow. */
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

  /** The run's own header, if the run is in no trace. */
  #origin(): Headers {
    // The same id that its activities see: after a reset it differs from that of the first execution.
    const { workflowType, runId } = workflowInfo()
    const isInTrace = TRACE_HEADER in this.#headers || RUN_HEADER in this.#headers
    if (isInTrace || !isTracedRun(workflowType)) return {}
    return { [RUN_HEADER]: defaultPayloadConverter.toPayload(runId) }
  }

  #with<Input extends { readonly headers: Headers }>(input: Input, also: Headers = {}): Input {
    return { ...input, headers: { ...input.headers, ...also, ...this.#headers } }
  }
}
