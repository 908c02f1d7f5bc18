/** A call given as a URL: where the data goes, and which headers say so. Rule: docs/behaviour/requests.md, "Calls by URL". */
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Call, RequestOptions } from '../providers/integration.ts'

/** Their data is the query: a body has no meaning there (RFC 9110, section 9.3). */
const QUERY_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE'])
/** `fetch` sends no body with these: https://fetch.spec.whatwg.org/#dom-request */
const BODILESS_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

export interface UrlCall {
  readonly method: string
  readonly target: string | URL
  readonly data: RequestOptions['data']
  /** Goes to a provider that knows it, under its header; null: it is not sent. */
  readonly key: { readonly header: string; readonly value: string } | null
}

/** @throws InvalidArgumentException */
export function callByUrl({ method: given, target, data, key }: UrlCall): { url: string; call: Call<unknown> } {
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
    url: url.href,
    call: ({ fetch }) => fetch(url, { method, headers, ...(body !== undefined && { body }) }),
  }
}

function asJson(data: unknown): string {
  try {
    return JSON.stringify(data)
  } catch (cause) {
    throw new InvalidArgumentException('data', 'JSON, a text or bytes are allowed', { cause })
  }
}

/** `fetch` would refuse it, or trim it to another key, when the key is spent already. */
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
  // What was given stays unsaid: it may hold a password.
  throw new InvalidArgumentException('url', 'an absolute http or https URL without user name and password is allowed')
}

/** Numbers and truths as text, a list as its name again and again, null left out. */
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
