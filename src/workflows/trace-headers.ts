/**
 * Hands the trace on in which a workflow was started: to its activities, its children and the history that it goes on in.
 *
 * A header is copied, nothing else: no span, no clock, no SDK inside a workflow, and no command that was not there before.
 * Without the header nothing happens, so every history replays. Rule: docs/behaviour/tracing.md, "Workflows".
 */
import type {
  Headers,
  WorkflowInboundCallsInterceptor,
  WorkflowInterceptors,
  WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow'
import { TRACE_HEADER } from '../core/trace-header.ts'

export function interceptors(): WorkflowInterceptors {
  const trace = new PassedOn()
  return { inbound: [trace], outbound: [trace] }
}

/** Of one run of a workflow. */
class PassedOn implements WorkflowInboundCallsInterceptor, WorkflowOutboundCallsInterceptor {
  #headers: Headers = {}

  execute: NonNullable<WorkflowInboundCallsInterceptor['execute']> = (input, next) => {
    const given = input.headers[TRACE_HEADER]
    if (given !== undefined) this.#headers = { [TRACE_HEADER]: given }
    return next(input)
  }

  scheduleActivity: NonNullable<WorkflowOutboundCallsInterceptor['scheduleActivity']> = (input, next) =>
    next(this.#with(input))

  scheduleLocalActivity: NonNullable<WorkflowOutboundCallsInterceptor['scheduleLocalActivity']> = (input, next) =>
    next(this.#with(input))

  startChildWorkflowExecution: NonNullable<WorkflowOutboundCallsInterceptor['startChildWorkflowExecution']> = (
    input,
    next,
  ) => next(this.#with(input))

  continueAsNew: NonNullable<WorkflowOutboundCallsInterceptor['continueAsNew']> = (input, next) =>
    next(this.#with(input))

  #with<Input extends { readonly headers: Headers }>(input: Input): Input {
    return { ...input, headers: { ...input.headers, ...this.#headers } }
  }
}
