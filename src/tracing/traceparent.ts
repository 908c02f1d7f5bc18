/** A span's place as W3C's `traceparent` (https://www.w3.org/TR/trace-context/, 3.2): what rows and Temporal's headers carry. */
import type { SpanContext } from '@opentelemetry/api'
import { isSpanContextValid, TraceFlags } from '@opentelemetry/api'

/** Of version 00, which has exactly these 55 characters. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** Null for a span that nobody records or passes on. */
export function traceparentOf(context: SpanContext): string | null {
  if (!isSpanContextValid(context)) return null
  const sampled = context.traceFlags & TraceFlags.SAMPLED
  return `00-${context.traceId}-${context.spanId}-0${sampled}`
}

/** Null for what is none, be it that somebody else has written it. */
export function spanContextOf(traceparent: string | null | undefined): SpanContext | null {
  const [, traceId = '', spanId = '', flags = '0'] = TRACEPARENT.exec(traceparent ?? '') ?? []
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED, isRemote: true }
  return isSpanContextValid(context) ? context : null
}
