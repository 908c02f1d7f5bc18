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
  /** Of the one run that these interceptors belong to. */
  let passedOn: Headers = {}
  const withHeaders = <Input extends { readonly headers: Headers }>(input: Input, also: Headers = {}): Input => ({
    ...input,
    headers: { ...input.headers, ...also, ...passedOn },
  })
  /** The run's own header, if the run is in no trace. */
  const origin = (): Headers => {
    // The same id that its activities see: after a reset it differs from that of the first execution.
    const { workflowType, runId } = workflowInfo()
    const isInTrace = TRACE_HEADER in passedOn || RUN_HEADER in passedOn
    if (isInTrace || !isTracedRun(workflowType)) return {}
    return { [RUN_HEADER]: defaultPayloadConverter.toPayload(runId) }
  }
  const inbound: WorkflowInboundCallsInterceptor = {
    execute(input, next) {
      for (const name of [TRACE_HEADER, RUN_HEADER]) {
        const given = input.headers[name]
        if (given !== undefined) passedOn = { ...passedOn, [name]: given }
      }
      return next(input)
    },
  }
  const outbound: WorkflowOutboundCallsInterceptor = {
    scheduleActivity: (input, next) => next(withHeaders(input)),
    scheduleLocalActivity: (input, next) => next(withHeaders(input)),
    startChildWorkflowExecution: (input, next) => next(withHeaders(input, origin())),
    continueAsNew: (input, next) => next(withHeaders(input, origin())),
  }
  return { inbound: [inbound], outbound: [outbound] }
}
