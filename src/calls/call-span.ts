/**
 * One attempt as a span, in the words of OpenTelemetry's conventions for HTTP clients. Rule: docs/behaviour/tracing.md, "Calls".
 * https://opentelemetry.io/docs/specs/semconv/http/http-spans/
 */
import type { Attributes, Span } from '@opentelemetry/api'
import { SpanKind } from '@opentelemetry/api'
import type { Egress } from '../egress/guarded-fetch.ts'
import { errorKind } from '../framework/thrown.ts'
import type { Identity } from '../observability/spans.ts'
import { identityAttributes, inSpan, markFailed, noteInSpan } from '../observability/spans.ts'
import type { Attempt } from './attempt.ts'
import type { PlannedCall } from './call.ts'
import { HTTP_METHODS } from './call.ts'

/** @param make given the way out, which tells the span the host of each request */
export function inCallSpan(
  { framework: { egress }, integration, method: given, shownEndpoint }: PlannedCall,
  number: number,
  make: (egress: Pick<Egress, 'fetch'>) => Promise<Attempt>,
): Promise<Attempt> {
  const start = () => {
    // As in the conventions: an attribute that spans are found by takes few values.
    const method = HTTP_METHODS.has(given) ? given : '_OTHER'
    const template = templateOf(shownEndpoint())
    const attributes: Attributes = {
      ...identityAttributes(integration),
      'http.request.method': method,
      'url.template': template,
    }
    if (number > 1) attributes['http.request.resend_count'] = number - 1
    return { name: `${method === '_OTHER' ? 'HTTP' : method} ${template}`, kind: SpanKind.CLIENT, attributes }
  }
  return inSpan(start, async (span) => {
    if (!span.isRecording()) return make(egress)
    const attempt = await make(observedBy(egress, span))
    describe(span, attempt)
    return attempt
  })
}

/** A call that made no attempt, or took an older answer, has no span of its own: the span around it gets a note. */
export function noteCall(
  event: 'cache_hit' | 'stale_answer' | 'circuit_open' | 'rate_limit_exceeded',
  integration: Identity,
): void {
  noteInSpan(`integration.${event}`, identityAttributes(integration))
}

function describe(span: Span, { answer, outcome }: Attempt): void {
  if (answer.statusCode !== null) span.setAttribute('http.response.status_code', answer.statusCode)
  if (outcome.kind === 'succeeded') return
  span.setAttribute('integration.failure_class', outcome.failureClass)
  const isRefused = answer.statusCode !== null && answer.statusCode >= 400
  markFailed(span, isRefused ? String(answer.statusCode) : errorKind(outcome.error))
}

/** The same way out; the span keeps the host of the last request. */
function observedBy(egress: Egress, span: Span): Pick<Egress, 'fetch'> {
  return {
    fetch(options) {
      const send = egress.fetch(options)
      return (input, init) => {
        const url = input instanceof Request ? input.url : String(input)
        // fetch itself refuses what is no URL.
        if (URL.canParse(url)) span.setAttributes(serverOf(new URL(url)))
        return send(input, init)
      }
    },
  }
}

function serverOf({ hostname, port, protocol }: URL): Attributes {
  const known = protocol === 'http:' ? 80 : 443
  return { 'server.address': hostname, 'server.port': port === '' ? known : Number(port) }
}

const MAX_TEMPLATE_LENGTH = 255

/**
 * An endpoint as a path of few values: no query, no host, and no segment that looks like an id, an address or a token. So
 * `/repos/acme/site/issues/17?page=2` is `/repos/acme/site/issues/{id}`. A plain slug stays: it looks like a name of the provider's.
 */
export function templateOf(endpoint: string): string {
  const [whole = ''] = endpoint.split(/[?#]/, 1)
  const path = whole.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, '')
  const segments = path.split('/').map((segment) => (isLikeAnId(segment) ? '{id}' : segment))
  return segments.join('/').slice(0, MAX_TEMPLATE_LENGTH)
}

function isLikeAnId(segment: string): boolean {
  // A mail address, or something that had to be escaped: a provider's own words need no escapes.
  if (/[@%]/.test(segment) || segment.length >= 24) return true
  if (!/\d/.test(segment)) return false
  if (/^\d+$/.test(segment) || segment.includes('_') || segment.length >= 12) return true
  return segment.length >= 6 && /\p{L}/u.test(segment)
}
