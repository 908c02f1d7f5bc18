/** `integration.at(endpoint)`: a call step by step, and calls by URL. Rule: docs/behaviour/requests.md, "The builder". */
import type { z } from 'zod'
import type { Framework, OutboundCall } from '../framework/context.ts'
import { supportsIdempotency } from '../providers/contracts.ts'
import type { Answered, Call, RequestBuilder, RequestOptions } from '../providers/integration.ts'
import type { UrlCall } from './call-by-url.ts'
import { callByUrl } from './call-by-url.ts'

/** What the steps have said so far. */
type Steps = Omit<OutboundCall<unknown>, 'method' | 'call' | 'url'>

const DEFAULT_KEY_HEADER = 'Idempotency-Key'

export function requestBuilder(framework: Framework, steps: Steps): RequestBuilder {
  return builderOf(framework, steps)
}

function builderOf<Parsed>(framework: Framework, steps: Steps): RequestBuilder<Parsed> {
  const and = (options: RequestOptions): RequestBuilder<Parsed> =>
    builderOf(framework, { ...steps, options: { ...steps.options, ...options } })
  const execute = async <R>(method: string, target: Call<R> | string | URL): Promise<Answered<Parsed, R>> => {
    // A schema among the steps has parsed it.
    if (typeof target === 'function')
      return framework.request<R>(framework, { ...steps, method, call: target }) as Promise<Answered<Parsed, R>>
    const byUrl = callByUrl({ method, target, data: steps.options.data, key: sentKey(framework, steps) })
    return framework.request<R>(framework, {
      ...steps,
      endpoint: pathOf(steps.endpoint),
      method,
      url: byUrl.url,
      call: byUrl.call as Call<R>,
    }) as Promise<Answered<Parsed, R>>
  }
  return {
    as: <S extends z.ZodType>(schema: S) => builderOf<{ readonly as: z.output<S> }>(framework, { ...steps, schema }),
    withCache: (cacheFor, { serveStale } = {}) => and({ cacheFor, ...(serveStale !== undefined && { serveStale }) }),
    withAttempts: (attempts) => and({ attempts }),
    withData: (data) => and({ data }),
    relatedTo: (type, id) => and({ relatedTo: { type, id } }),
    retryOf: (retryOf) => and({ retryOf }),
    withIdempotencyKey: (idempotencyKey) => and({ idempotencyKey }),
    withTimeout: (timeoutMs) => and({ timeoutMs }),
    get: (target) => execute('GET', target),
    post: (target) => execute('POST', target),
    put: (target) => execute('PUT', target),
    patch: (target) => execute('PATCH', target),
    delete: (target) => execute('DELETE', target),
    execute,
  }
}

/** The key with its header, for a provider that drops repeats by it. */
function sentKey({ providers }: Framework, { integration, options }: Steps): UrlCall['key'] {
  const { idempotencyKey: value } = options
  const provider = providers.find(integration.provider)
  if (typeof value !== 'string' || provider === null || !supportsIdempotency(provider)) return null
  return { header: provider.idempotencyHeader ?? DEFAULT_KEY_HEADER, value }
}

/** A query may hold what must not be stored, and makes one endpoint many. */
function pathOf(endpoint: string): string {
  if (URL.canParse(endpoint)) return new URL(endpoint).pathname
  return endpoint.replace(/[?#].*$/s, '')
}
