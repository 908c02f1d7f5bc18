/** An activity as a span, in the trace that its workflow was started in. Rule: docs/behaviour/tracing.md, "Workflows". */
import { SpanKind } from '@opentelemetry/api'
import type { Context } from '@temporalio/activity'
import { TRACE_HEADER } from '../core/trace-header.ts'
import { inSpan } from '../tracing/spans.ts'

/** Temporal's headers, as far as they matter here. */
type Headers = Readonly<Record<string, { readonly data?: Uint8Array | null }>>

/** Beside the SDK's own interceptors, for `Worker.create()`. */
export function tracedActivity({ info }: Context) {
  return {
    inbound: {
      execute<Input extends { readonly headers: Headers }>(
        input: Input,
        next: (input: Input) => Promise<unknown>,
      ): Promise<unknown> {
        const start = () => ({
          name: `activity ${info.activityType}`,
          kind: SpanKind.INTERNAL,
          attributes: {
            'temporal.activity.attempt': info.attempt,
            'temporal.task_queue': info.taskQueue,
            'temporal.workflow.type': info.workflowType,
            'temporal.workflow.id': info.workflowExecution?.workflowId,
            'temporal.run.id': info.workflowExecution?.runId,
          },
          parent: traceparentIn(input.headers),
        })
        return inSpan(start, () => next(input))
      },
    },
  }
}

/** What temporal/trace-headers.ts wrote and the workflow handed on; null for none, or what is not ours. */
function traceparentIn(headers: Headers): string | null {
  const data = headers[TRACE_HEADER]?.data
  if (data === undefined || data === null) return null
  try {
    const text: unknown = JSON.parse(Buffer.from(data).toString('utf8'))
    return typeof text === 'string' ? text : null
  } catch {
    return null
  }
}
