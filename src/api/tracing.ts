/** A request as a span and, at level debug, as a line. Rule: docs/behaviour/tracing.md, "Requests to us". */
import { SpanKind } from '@opentelemetry/api'
import type { Context, MiddlewareHandler } from 'hono'
import { routePath } from 'hono/route'
import type { Integrations } from '../create-integrations.ts'
import { inSpan, markFailed } from '../observability/spans.ts'

const METHODS: ReadonlySet<string> = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])

/**
 * The trace that a caller names is linked to, never joined: whoever can send us a request could otherwise write into traces
 * of ours, and choose which are recorded. A host that serves these routes within a span of its own has them in its trace.
 *
 * For paths of ours alone: in a host's app it would stand before the host's own routes, too. A request that several of the paths
 * match is one span.
 */
export function traced({ logger }: Pick<Integrations, 'logger'>): MiddlewareHandler {
  return function traced(context, next) {
    if (context.get('isTraced') === true) return next()
    context.set('isTraced', true)
    const { req } = context
    const startedAt = performance.now()
    const start = () => {
      const method = methodOf(context)
      return {
        name: method === '_OTHER' ? 'HTTP' : method,
        kind: SpanKind.SERVER,
        attributes: { 'http.request.method': method },
        linkTo: req.raw.headers.get('traceparent'),
      }
    }
    return inSpan(start, async (span) => {
      await next()
      const isLogged = logger.isLevelEnabled?.('debug') ?? true
      if (!isLogged && !span.isRecording()) return
      const { status } = context.res
      const method = methodOf(context)
      const route = routeOf(context)
      if (span.isRecording()) {
        span.setAttribute('http.response.status_code', status)
        if (route !== null) span.updateName(`${method} ${route}`).setAttribute('http.route', route)
        if (status >= 500) markFailed(span, String(status))
      }
      const duration_ms = Math.round(performance.now() - startedAt)
      if (isLogged) logger.debug({ event: 'api.request', method, route, status, duration_ms }, 'request answered')
    })
  }
}

function methodOf({ req }: Context): string {
  return METHODS.has(req.method) ? req.method : '_OTHER'
}

/** The pattern that answered, not what was asked: a path may hold anything. Null: what stands before the routes did, or nothing. */
function routeOf(context: Context): string | null {
  // Of all that matched, a host's catch-all and ours among them, the one that was reached last.
  const pattern = routePath(context)
  return pattern === '' || pattern.endsWith('*') ? null : pattern
}
