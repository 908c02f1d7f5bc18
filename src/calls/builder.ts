/**
 * `integration.at(endpoint)`: a call step by step, and calls by URL: where their data goes, and which headers say so.
 * Rule: docs/behaviour/requests.md, "The builder" and "Calls by URL".
 */
import type { z } from 'zod'
import type { Framework, OutboundCall } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { supportsIdempotency } from '../providers/contracts.ts'
import type { Call, RequestBuilder, RequestOptions } from '../providers/integration.ts'

/** What the steps have said so far. */
type Steps = Omit<OutboundCall<unknown>, 'method' | 'call' | 'url'>

const DEFAULT_KEY_HEADER = 'Idempotency-Key'

export function requestBuilder<Parsed = undefined>(framework: Framework, steps: Steps): RequestBuilder<Parsed> {
  const and = (options: RequestOptions): RequestBuilder<Parsed> =>
    requestBuilder(framework, { ...steps, options: { ...steps.options, ...options } })
  const execute = async (method: string, target: Call<unknown> | string | URL = steps.endpoint): Promise<never> => {
    // A schema among the steps has parsed it.
    if (typeof target === 'function')
      return framework.request(framework, { ...steps, method, call: target }) as Promise<never>
    const byUrl = callByUrl({ method, target, data: steps.options.data, key: sentKey(framework, steps) })
    return framework.request(framework, {
      ...steps,
      endpoint: pathOf(steps.endpoint),
      method: byUrl.method,
      url: byUrl.url,
      call: byUrl.call,
    }) as Promise<never>
  }
  const by =
    (method: string) =>
    (target?: Call<unknown> | string | URL): Promise<never> =>
      execute(method, target)
  return {
    as: <S extends z.ZodType>(schema: S) =>
      requestBuilder<{ readonly as: z.output<S> }>(framework, { ...steps, schema }),
    withCache: (cacheFor, { serveStale } = {}) => and({ cacheFor, ...(serveStale !== undefined && { serveStale }) }),
    withAttempts: (attempts) => and({ attempts }),
    withData: (data) => and({ data }),
    relatedTo: (type, id) => and({ relatedTo: { type, id } }),
    retryOf: (retryOf) => and({ retryOf }),
    withIdempotencyKey: (idempotencyKey) => and({ idempotencyKey }),
    writes: (record) => and({ writes: { record } }),
    withTimeout: (timeoutMs) => and({ timeoutMs }),
    get: by('GET'),
    post: by('POST'),
    put: by('PUT'),
    patch: by('PATCH'),
    delete: by('DELETE'),
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

/** Without the query: it may hold what must not be stored, and it would make one endpoint many. */
function pathOf(endpoint: string): string {
  // `issues:create` is a URL, too.
  if (/^https?:/i.test(endpoint) && URL.canParse(endpoint)) return new URL(endpoint).pathname
  return endpoint.replace(/[?#].*$/s, '')
}

/** Their data is the query: a body has no meaning there (RFC 9110, section 9.3). */
const QUERY_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE'])
/** `fetch` sends no body with these: https://fetch.spec.whatwg.org/#dom-request */
const BODILESS_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

export interface UrlCall {
  readonly method: string
  readonly target: string | URL
  readonly data: RequestOptions['data']
  /** Sent under its header, to a provider that knows keys. Null: it is not sent. */
  readonly key: { readonly header: string; readonly value: string } | null
}

/** @returns `url` as the response cache compares it @throws InvalidArgumentException */
export function callByUrl({ method: given, target, data, key }: UrlCall): {
  method: string
  url: string
  call: Call<unknown>
} {
  const method = given.toUpperCase()
  const url = checkedUrl(target)
  const isText = typeof data === 'string' || data instanceof Uint8Array
  if (isText && BODILESS_METHODS.has(method))
    throw new InvalidArgumentException('data', `an object is allowed with ${method}: it has no body`)
  const isQuery = !isText && QUERY_METHODS.has(method)
  if (isQuery && data !== undefined) for (const [name, value] of queryOf(data)) url.searchParams.append(name, value)
  const isJson = !isText && !isQuery && data !== undefined
  const body = isText ? data : isJson ? asJson(data) : undefined
  const headers = {
    ...(isJson && { 'Content-Type': 'application/json' }),
    ...(key !== null && { [key.header]: headerValue(key.value) }),
  }
  return {
    method,
    url: comparable(url),
    call: ({ fetch }) => fetch(url, { method, headers, ...(body !== undefined && { body }) }),
  }
}

/** Names in any order, values of one name in theirs. The fragment is not sent. */
function comparable(url: URL): string {
  const sorted = new URL(url)
  sorted.searchParams.sort()
  sorted.hash = ''
  return sorted.href
}

function asJson(data: unknown): string {
  try {
    return JSON.stringify(data)
  } catch (cause) {
    throw new InvalidArgumentException('data', 'JSON, a text or bytes are allowed', { cause })
  }
}

/** Checked before the key is spent: `fetch` would refuse another text, or trim it to another key. */
function headerValue(key: string): string {
  if (/^[!-~]([ -~]*[!-~])?$/.test(key)) return key
  throw new InvalidArgumentException(
    'idempotencyKey',
    'printable ASCII without spaces at its ends is allowed: the provider gets it in a header',
  )
}

function checkedUrl(target: string | URL): URL {
  const url = URL.canParse(String(target)) ? new URL(target) : null
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return url
  // The message does not quote the URL: it may hold a password.
  throw new InvalidArgumentException('url', 'an absolute http or https URL without user name and password is allowed')
}

/** Numbers and booleans as text, a list as its name repeated, null left out. */
function queryOf(data: unknown): [name: string, value: string][] {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) throw unfit('data')
  return Object.entries(data).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).flatMap((one): [string, string][] => {
      if (one === null || one === undefined) return []
      if (typeof one === 'object') throw unfit(`data.${name}`)
      return [[name, String(one)]]
    }),
  )
}

function unfit(argument: string): InvalidArgumentException {
  return new InvalidArgumentException(
    argument,
    'an object of texts, numbers, booleans and lists of them is allowed: it is the query',
  )
}
