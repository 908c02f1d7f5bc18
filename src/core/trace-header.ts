/** Name of the Temporal header in which a workflow is told the trace that it was started in, as W3C's `traceparent`. */
export const TRACE_HEADER = 'traceparent'
