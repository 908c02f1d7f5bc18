/** Files and images that issues link to. Rule: docs/behaviour/github.md, "Assets". */
import type { Integration, RequestContext, RequestOptions } from '../../provider.ts'
import {
  EgressRefused,
  HttpError,
  IntegrationsError,
  InvalidArgumentException,
  isIntegrationsError,
} from '../../provider.ts'
import { withAccessToken } from './app-token.ts'
import { AssetHosts } from './asset-hosts.ts'
import { nullWhenGone } from './github-call.ts'
import { repositoryOf } from './repository.ts'

export interface GitHubAsset {
  readonly bytes: Uint8Array
  /** Such as `image/png`. */
  readonly contentType: string | null
}

/** Another host than GitHub's did not give the asset. Neither health nor the circuit count it. */
export class AssetUnavailable extends IntegrationsError {
  override readonly code = 'github_asset_unavailable'
  constructor(
    /** The host that refused; without an answer, the host of the first URL. */
    readonly host: string,
    /** Null: there was no complete answer. */
    readonly status: number | null,
    readonly reason: string,
  ) {
    super(`"${host}" gave no asset: ${reason}.`)
  }
}

export interface AssetLimits {
  /** Decoded. */
  readonly maxBytes: number
  readonly totalMs: number
  readonly idleMs: number
}

const LIMITS: AssetLimits = { maxBytes: 50 * 1024 * 1024, totalMs: 120_000, idleMs: 30_000 }
/** The attempt's own deadline ends work that ignores ours. */
const DEADLINE_SLACK_MS = 1_000
const MAX_REDIRECTS = 5
/** Read of an error answer: enough to show the fault. */
const MAX_ERROR_BYTES = 4_096
const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const GONE: ReadonlySet<number> = new Set([404, 410])

/**
 * The bytes that the URL leads to; null for 404 and 410.
 *
 * @param limits for tests
 * @throws InvalidArgumentException for an invalid URL, EgressRefused, AssetUnavailable, ResponseTooLarge; HttpError; errors of `request()`
 */
export async function downloadAsset(
  integration: Integration,
  url: string,
  options: Pick<RequestOptions, 'signal' | 'attempts'> = {},
  limits: AssetLimits = LIMITS,
): Promise<GitHubAsset | null> {
  const first = urlOf(url)
  const hosts = new AssetHosts(repositoryOf(integration))
  const download = async (token: string | null, given: typeof options): Promise<GitHubAsset> => {
    let contentType: string | null = null
    const bytes = await integration.request<Uint8Array>(
      `${first.protocol}//${first.host}${first.pathname}`,
      'GET',
      async (context) => {
        const patience = new Patience(limits)
        try {
          const response = await answerTo(context, { first, token, hosts, patience, maxBytes: limits.maxBytes })
          contentType = response.headers.get('content-type')
          return await wholeBody(response, patience)
        } catch (error) {
          throw hosts.isUpload(first) ? error : ofAnotherHost(error, first.hostname, context.signal)
        } finally {
          patience.end()
        }
      },
      { ...given, timeoutMs: limits.totalMs + DEADLINE_SLACK_MS },
    )
    return { bytes, contentType }
  }
  return nullWhenGone(
    hosts.takesToken(first) ? withAccessToken(integration, options, download) : download(null, options),
  )
}

function urlOf(url: string): URL {
  if (typeof url === 'string' && URL.canParse(url)) return new URL(url)
  // The text may hold a signature or a password, so it is not shown.
  const given = typeof url === 'string' ? `a text of ${url.length} characters that is none` : String(url)
  throw new InvalidArgumentException('url', `an absolute https URL is allowed; given was ${given}`)
}

/** The answer after all redirects. Each is checked like the first URL. */
async function answerTo(
  context: RequestContext,
  {
    first,
    token,
    hosts,
    patience,
    maxBytes,
  }: { first: URL; token: string | null; hosts: AssetHosts; patience: Patience; maxBytes: number },
): Promise<Response> {
  const fetch = context.fetchUpTo(maxBytes)
  let url = first
  let held = token
  let requestId: string | null = null
  for (let redirects = 0; ; redirects += 1) {
    hosts.check(url)
    // A URL that is no upload may redirect anywhere: no later host gets the token, not even an upload.
    if (!hosts.isUpload(url)) held = null
    const headers = new Headers({ accept: '*/*' })
    const isShownToken = held !== null && hosts.takesToken(url)
    if (isShownToken) headers.set('authorization', `Bearer ${held}`)
    const response = await fetch(url, { headers, redirect: 'manual', signal: patience.signal })
    patience.heard()
    requestId = response.headers.get('x-github-request-id') ?? requestId
    const location = REDIRECT_STATUSES.has(response.status) ? response.headers.get('location') : null
    if (location === null) {
      context.report({ statusCode: response.status, providerRequestId: requestId ?? undefined })
      if (response.ok) return response
      if (isShownToken) throw new HttpError(response.status, response.headers, await beginning(response, patience))
      throw await withoutTokenRefused(response, url.hostname, hosts.isUpload(first) ? patience : null)
    }
    await response.body?.cancel()
    if (redirects === MAX_REDIRECTS) {
      throw new EgressRefused(url.hostname, `it redirects after ${MAX_REDIRECTS} redirects`)
    }
    url = redirectedTo(url, location)
  }
}

function redirectedTo(from: URL, location: string): URL {
  // The text of a header has one character a byte, and the URL in it may be UTF-8.
  const target = Buffer.from(location, 'latin1').toString()
  if (!URL.canParse(target, from.href)) throw new EgressRefused(from.hostname, 'it redirects to what is no URL')
  const url = new URL(target, from)
  if (from.protocol === 'https:' && url.protocol === 'http:') {
    throw new EgressRefused(url.hostname, 'an https URL redirects to it without TLS')
  }
  return url
}

async function wholeBody(response: Response, patience: Patience): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  for await (const chunk of chunksOf(response, patience)) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function beginning(response: Response, patience: Patience): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of chunksOf(response, patience)) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= MAX_ERROR_BYTES) break
  }
  return Buffer.concat(chunks).subarray(0, MAX_ERROR_BYTES).toString()
}

/** A caller that stops early leaves the rest unread. */
async function* chunksOf({ body }: Response, patience: Patience): AsyncGenerator<Uint8Array> {
  if (body === null) return
  const reader = body.getReader()
  try {
    const next = () => patience.during(reader.read())
    for (let read = await next(); !read.done; read = await next()) {
      patience.heard()
      yield read.value
    }
  } finally {
    await reader.cancel()
  }
}

/**
 * The error of a request without the token. Its 401 must not drop an App's token, and its `Retry-After` and `X-RateLimit-Reset`
 * must not suppress calls to GitHub, so the error has no headers.
 *
 * @param patience to read the answer of an upload's store; null: the download did not begin at an upload. Then anyone could have
 *   written the URL into an issue, and its 500 must not open the circuit
 */
async function withoutTokenRefused(response: Response, host: string, patience: Patience | null): Promise<Error> {
  const { status } = response
  if (patience !== null && status >= 500)
    return new HttpError(status, new Headers(), await beginning(response, patience))
  await response.body?.cancel()
  return GONE.has(status)
    ? new HttpError(status, new Headers(), null)
    : new AssetUnavailable(host, status, `it answered ${status}`)
}

/** A failed connection is not GitHub's fault if the download did not begin at an upload. */
function ofAnotherHost(error: unknown, host: string, signal: AbortSignal): unknown {
  if (signal.aborted || isIntegrationsError(error)) return error
  return new AssetUnavailable(host, null, reasonOf(error))
}

/** `fetch failed` says nothing; the code of its cause does. */
function reasonOf(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error('its answer broke off')
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  return typeof code === 'string' ? `${message} (${code})` : message
}

/** The time limits of one download: for the whole of it, and for a silence. */
class Patience {
  readonly #controller = new AbortController()
  readonly #total: NodeJS.Timeout
  readonly #idleMs: number
  #idle: NodeJS.Timeout | undefined
  readonly #lost: Promise<never>

  constructor({ totalMs, idleMs }: { readonly totalMs: number; readonly idleMs: number }) {
    this.#idleMs = idleMs
    const { signal } = this
    this.#lost = new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    // `during()` passes the rejection on; without a caller it would be unhandled.
    this.#lost.catch(() => {})
    this.#total = setTimeout(() => this.#lose(`took longer than ${totalMs} ms`), totalMs)
    this.heard()
  }

  /** Aborted at a time limit, with a `TimeoutError` as of `AbortSignal.timeout()`. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Ends with the work or at a time limit: not every body observes the signal. */
  during<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#lost])
  }

  /** Data arrived: the idle time begins again. */
  heard(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#lose(`sent nothing for ${this.#idleMs} ms`), this.#idleMs)
  }

  end(): void {
    clearTimeout(this.#total)
    clearTimeout(this.#idle)
  }

  #lose(what: string): void {
    this.#controller.abort(new DOMException(`The download of an asset ${what}.`, 'TimeoutError'))
  }
}
