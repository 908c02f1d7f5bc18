/** One call to GitHub's REST API. Rule: docs/behaviour/github.md, "Calls". */
import type { z } from 'zod'
import type { Json, RequestOptions } from '../../provider.ts'
import { HttpError, linkTo } from '../../provider.ts'
import type { CallLimits } from './app-token.ts'
import { withAccessToken } from './app-token.ts'
import { checkKey } from './github-arguments.ts'
import { isGone } from './github-failures.ts'
import type { Repository } from './repository.ts'

/** The result of `repository.endpoint(route, parameters)`. */
export interface PreparedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | number | undefined>>
  readonly body?: unknown
}

export interface GitHubCall extends Pick<RequestOptions, 'idempotencyKey' | 'writes'>, CallLimits {
  /** For the request log: the path, with `?page=` for a page. */
  readonly endpoint: string
  readonly request: PreparedRequest
  /** Limit of the decoded answer. Default: that of `context.fetch`. */
  readonly maxBytes?: number
  /** Ids of 16 and more digits are answered as text. Default: as numbers, which are rounded above 2^53. */
  readonly hasLongIds?: boolean
}

export interface GitHubAnswer<T> {
  readonly data: T
  /** The next page, by the header `Link`. Read when it is asked for: a rehearsal has no headers. */
  readonly next: () => NextPage
  /** The final address of a read after redirects; null: there was no redirect. */
  readonly redirectedTo: URL | null
}

/** `elsewhere`: there is a next page, but its link is invalid or leads away from the API's own origin. */
export type NextPage =
  | { readonly kind: 'none' }
  | { readonly kind: 'elsewhere' }
  | { readonly kind: 'at'; readonly url: string }

/**
 * Sends a request by `integration.request()` and its `context.fetch`, so that faults are thrown unchanged.
 *
 * @throws InvalidArgumentException for a bad idempotency key, before the token is fetched
 * @throws HttpError for a status of 400 or more, and for a redirected write; SchemaDrift; errors of `request()`
 */
export async function callGitHub<S extends z.ZodType>(
  { integration, origin }: Pick<Repository, 'integration' | 'origin'>,
  schema: S,
  { endpoint, request, maxBytes, hasLongIds = false, idempotencyKey = null, writes, ...limits }: GitHubCall,
): Promise<GitHubAnswer<z.output<S>>> {
  checkKey(idempotencyKey)
  const { method, url, body } = request
  const given = new Headers()
  for (const [name, value] of Object.entries(request.headers)) if (value !== undefined) given.set(name, String(value))
  let answered: Headers | null = null
  let redirectedTo: URL | null = null
  // The token is fetched before the call, not inside it: fetching is a call too, and the circuit allows one probe at a time.
  const data = await withAccessToken(integration, limits, (token, options) =>
    integration.requestAs(
      schema,
      endpoint,
      method,
      async (context) => {
        const fetch = maxBytes === undefined ? context.fetch : context.fetchUpTo(maxBytes)
        const headers = new Headers(given)
        headers.set('authorization', `Bearer ${token}`)
        const isRead = method === 'GET'
        const sent = { method, headers, ...(isRead ? {} : { redirect: 'manual' as const }) }
        const response = await fetch(url, body === undefined ? sent : { ...sent, body: JSON.stringify(body) })
        answered = response.headers
        redirectedTo = response.redirected ? new URL(response.url) : null
        if (isRead || !isRedirect(response))
          return hasLongIds && response.status === 200 ? withIdsAsText(response) : response
        // Following it would change a transferred issue in another repository, and turn a POST into a GET. The call's key is free
        // again: classifyGitHubFailure().
        const text = await response.text().catch(() => null)
        throw new HttpError(response.status, response.headers, text)
      },
      {
        ...options,
        idempotencyKey,
        ...(writes === undefined ? {} : { writes }),
        ...(body === undefined ? {} : { data: body as Json }),
      },
    ),
  )
  return { data, next: () => nextPage(answered?.get('link') ?? null, origin), redirectedTo }
}

/** Null for 404 and 410 of the call itself. Any other error is thrown, as one of the call for a token. */
export async function nullWhenGone<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (isGone(error)) return null
    throw error
  }
}

/** In a string of JSON each quote is escaped, so only an `id` of an object is changed. */
async function withIdsAsText(response: Response): Promise<Response> {
  const { status, headers } = response
  const text = (await response.text()).replace(/("id"\s*:\s*)(\d{16,})/g, '$1"$2"')
  return new Response(text, { status, headers: [...headers] })
}

function isRedirect({ status }: Response): boolean {
  return status >= 300 && status < 400
}

/** The `next` link, if it stays on the API's own origin: page numbers are capped on long lists, links are not. */
function nextPage(link: string | null, origin: string): NextPage {
  const url = linkTo('next', link ?? '')
  if (url === null) return { kind: 'none' }
  return URL.canParse(url) && new URL(url).origin === origin ? { kind: 'at', url } : { kind: 'elsewhere' }
}
