/** One call to GitHub's REST API. Rule: docs/behaviour/github.md, "Calls". */
import type { z } from 'zod'
import type { Json, RequestOptions } from '../../provider.ts'
import { HttpError, isIntegrationsError } from '../../provider.ts'
import type { CallLimits } from './app-token.ts'
import { withAccessToken } from './app-token.ts'
import { linkTo } from './link-header.ts'
import type { Repository } from './repository.ts'

/** What `repository.endpoint(route, parameters)` gives. */
export interface PreparedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | number | undefined>>
  readonly body?: unknown
}

export interface GitHubCall extends Pick<RequestOptions, 'idempotencyKey'>, CallLimits {
  /** As the request log has it: the path, with `?page=` where there are pages. */
  readonly endpoint: string
  readonly request: PreparedRequest
  /** Of the answer, decoded, at most; else what `context.fetch` takes. */
  readonly maxBytes?: number
}

export interface GitHubAnswer<T> {
  readonly data: T
  /** Where `Link` says that the next page is. */
  readonly next: NextPage
  /** Where a read was answered after redirects; null: where it was asked. */
  readonly redirectedTo: URL | null
}

/** `elsewhere`: there is a next page, but its link leads away from the API's own origin or is none. */
export type NextPage =
  | { readonly kind: 'none' }
  | { readonly kind: 'elsewhere' }
  | { readonly kind: 'at'; readonly url: string }

/**
 * Sends a request by `integration.request()` and its `context.fetch`, so that what fails comes out as itself.
 *
 * @throws HttpError for a status of 400 or more, and for a write that was sent elsewhere; SchemaDrift; what `request()` throws
 */
export async function callGitHub<S extends z.ZodType>(
  { integration, origin }: Pick<Repository, 'integration' | 'origin'>,
  schema: S,
  { endpoint, request, maxBytes, idempotencyKey = null, ...limits }: GitHubCall,
): Promise<GitHubAnswer<z.output<S>>> {
  const { method, url, body } = request
  const given = new Headers()
  for (const [name, value] of Object.entries(request.headers)) if (value !== undefined) given.set(name, String(value))
  let link: string | null = null
  let redirectedTo: URL | null = null
  // Around the call, not in it: a token that is fetched is a call too, and a probe of the circuit is one at a time.
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
        link = response.headers.get('link')
        redirectedTo = response.redirected ? new URL(response.url) : null
        if (isRead || !isRedirect(response)) return response
        // It would change an issue that was transferred, in the repository it went to; and a POST would become a GET. A key that
        // it had is free again: classifyGitHubFailure().
        throw new HttpError(response.status, response.headers, await response.text())
      },
      { ...options, idempotencyKey, ...(body === undefined ? {} : { data: body as Json }) },
    ),
  )
  return { data, next: nextPage(link, origin), redirectedTo }
}

/** Null for what is not there (404) or no longer (410). Everything else is thrown: a fault is no answer. */
export async function nullWhenGone<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (isIntegrationsError(error, 'http_error') && GONE.includes((error as HttpError).status)) return null
    throw error
  }
}

const GONE: readonly number[] = [404, 410]

function isRedirect({ status }: Response): boolean {
  return status >= 300 && status < 400
}

/** The `next` link, if it stays on the API's own origin: page numbers are capped on long lists, links are not. */
function nextPage(link: string | null, origin: string): NextPage {
  const url = linkTo('next', link ?? '')
  if (url === null) return { kind: 'none' }
  return URL.canParse(url) && new URL(url).origin === origin ? { kind: 'at', url } : { kind: 'elsewhere' }
}
