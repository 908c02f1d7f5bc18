/** An activity as a span, in the trace of its workflow's start, or else in a trace of its run. Rule: docs/behaviour/tracing.md, "Workflows". */
import { SpanKind } from '@opentelemetry/api'
import type { Context, Info } from '@temporalio/activity'
import { inSpan } from '../observability/spans.ts'
import { isTracedRun, RUN_HEADER, TRACE_HEADER, traceIdOf } from '../observability/traced-run.ts'

/** Temporal's headers, as far as this file reads them. */
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
          parent: textIn(input.headers, TRACE_HEADER),
          traceId: traceOf(info, input.headers),
        })
        return inSpan(start, () => next(input))
      },
    },
  }
}

/** The trace id of a run without a trace: the same for all its activities, in any worker. */
function traceOf({ workflowType, workflowExecution }: Info, headers: Headers): string | null {
  if (!isTracedRun(workflowType ?? '')) return null
  // A continued run's header names its first execution.
  return traceIdOf(textIn(headers, RUN_HEADER) ?? workflowExecution?.runId ?? '')
}

/** The text that temporal/connection.ts wrote or the workflow passed on; null if it is missing or not ours. */
function textIn(headers: Headers, name: string): string | null {
  const data = headers[name]?.data
  if (data === undefined || data === null) return null
  try {
    const text: unknown = JSON.parse(Buffer.from(data).toString('utf8'))
    return typeof text === 'string' ? text : null
  } catch {
    return null
  }
}
