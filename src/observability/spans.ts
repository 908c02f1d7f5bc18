/**
 * Spans, by OpenTelemetry's API alone: where no SDK is registered, they cost nothing and go nowhere.
 *
 * What stands in a span: ids, names of ours, codes. Never a credential, a payload, a query string or an error's text.
 * Rule: docs/behaviour/tracing.md, "What a span holds".
 */
import type { Attributes, Context, Link, Span, SpanContext, SpanKind } from '@opentelemetry/api'
import {
  context,
  createContextKey,
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  ProxyTracerProvider,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
import { errorKind } from '../framework/thrown.ts'

/** The instrumentation scope of all our spans. */
const SCOPE = 'durable-integrations'
const NO_SPAN = trace.wrapSpanContext(INVALID_SPAN_CONTEXT)

export interface SpanStart {
  readonly name: string
  readonly kind: SpanKind
  readonly attributes: Attributes
  /**
   * Whose part it is: a span that was stored or sent as `traceparent`, with a link to the span in whose course it comes about;
   * `none`: a trace of its own, with that link; without it, or where what was stored is null or none: that span's.
   */
  readonly parent?: string | null
  /** Id of the trace that this span begins, where it has no parent: others begin the same one elsewhere ({@link beginningTrace}). */
  readonly traceId?: string | null
  /** A span of a caller that is not trusted with our traces. */
  readonly linkTo?: string | null
}

/**
 * Runs `work` as a span, which ends with it. What it throws is thrown on, and marks the span by its kind.
 *
 * @param start only asked for where an SDK is registered
 */
export async function inSpan<T>(start: () => SpanStart, work: (span: Span) => Promise<T>): Promise<T> {
  const provider = trace.getTracerProvider()
  // No SDK is registered.
  if (provider instanceof ProxyTracerProvider && provider.getDelegateTracer(SCOPE) === undefined) return work(NO_SPAN)
  const started = start()
  const { name, kind, attributes } = started
  const { within, links } = placeOf(started)
  const span = beginningTrace(started.traceId, () =>
    provider.getTracer(SCOPE).startSpan(name, { kind, attributes, links }, within),
  )
  return context.with(trace.setSpan(within, span), async () => {
    try {
      return await work(span)
    } catch (error) {
      markFailed(span, errorKind(error))
      throw error
    } finally {
      span.end()
    }
  })
}

function placeOf({ parent, linkTo }: SpanStart): { within: Context; links: Link[] } {
  const within = context.active()
  const links: Link[] = []
  const linked = spanContextOf(linkTo)
  if (linked !== null) links.push({ context: linked })
  const remote = spanContextOf(parent)
  if (remote === null && parent !== 'none') return { within, links }
  const course = trace.getSpanContext(within)
  if (course !== undefined && isSpanContextValid(course)) links.push({ context: course })
  const base = trace.deleteSpan(within)
  return { within: remote === null ? base : trace.setSpanContext(base, remote), links }
}

/** Whose work it is. */
export interface Identity {
  readonly id: number
  readonly provider: string
}

export function identityAttributes({ id, provider }: Identity): Attributes {
  return { 'integration.id': id, 'integration.provider': provider }
}

/** @param kind a code or a class's name (`errorKind()`), never a text */
export function markFailed(span: Span, kind: string): void {
  span.setAttribute('error.type', kind)
  span.setStatus({ code: SpanStatusCode.ERROR })
}

/** Something that came about in the span that is active, if there is one. */
export function noteInSpan(event: string, attributes: Attributes): void {
  trace.getActiveSpan()?.addEvent(event, attributes)
}

/** Of the active span; null: there is none, or nothing is traced. */
export function activeTraceparent(): string | null {
  const active = trace.getActiveSpan()
  return active === undefined ? null : traceparentOf(active.spanContext())
}

const NO_FIELDS: Readonly<Record<string, string>> = {}

/** For a log line, so that it is found from its trace. */
export function traceFields(): Readonly<Record<string, string>> {
  const active = trace.getActiveSpan()?.spanContext()
  if (active === undefined || !isSpanContextValid(active)) return NO_FIELDS
  return { trace_id: active.traceId, span_id: active.spanId }
}

const WANTED = createContextKey('durable-integrations: id of the trace that begins')

/**
 * Starts a span without a parent in the trace of this id. Several processes begin the same trace in this way: the generator of ids
 * in sdk.ts takes the id up. A host's own SDK does not know of it and makes a random one.
 *
 * @param traceId null: any
 */
function beginningTrace<T>(traceId: string | null | undefined, start: () => T): T {
  return traceId ? context.with(context.active().setValue(WANTED, traceId), start) : start()
}

export function wantedTraceId(): string | null {
  const wanted = context.active().getValue(WANTED)
  return typeof wanted === 'string' ? wanted : null
}

/**
 * A span's place as W3C's `traceparent` (https://www.w3.org/TR/trace-context/, 3.2), which rows and Temporal's headers carry.
 * Version 00 has exactly these 55 characters.
 */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** Null for a span that is neither recorded nor passed on. */
export function traceparentOf(context: SpanContext): string | null {
  if (!isSpanContextValid(context)) return null
  const sampled = context.traceFlags & TraceFlags.SAMPLED
  return `00-${context.traceId}-${context.spanId}-0${sampled}`
}

/** Null for a text that is no `traceparent`, whatever wrote it. */
export function spanContextOf(traceparent: string | null | undefined): SpanContext | null {
  const [, traceId = '', spanId = '', flags = '0'] = TRACEPARENT.exec(traceparent ?? '') ?? []
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED, isRemote: true }
  return isSpanContextValid(context) ? context : null
}
