/** The trace of whoever starts a workflow, as a header of the start. Rule: docs/behaviour/tracing.md, "Workflows". */
import type { WorkflowClientInterceptor } from '@temporalio/client'
import { TRACE_HEADER } from '../core/trace-header.ts'
import { activeTraceparent } from '../tracing/spans.ts'

type Headers = Parameters<NonNullable<WorkflowClientInterceptor['startWithDetails']>>[0]['headers']
type Payload = Headers[string]

/**
 * Starts only. A signal that starts what is not there (`signalWithStart`) begins a workflow that works for many: an inbox
 * belongs to no delivery's trace.
 */
export const startsInTrace: WorkflowClientInterceptor = {
  startWithDetails(input, next) {
    const traceparent = activeTraceparent()
    if (traceparent === null) return next(input)
    return next({ ...input, headers: { ...input.headers, [TRACE_HEADER]: payloadOf(traceparent) } })
  },
}

/** As the SDK's default converter writes a string, so that whatever shows a history can show it. */
function payloadOf(text: string): Payload {
  return { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from(JSON.stringify(text)) }
}
